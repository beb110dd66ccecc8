/* SPDX-License-Identifier: MIT */
#ifndef SIMFAIL_IOCTL_H
#define SIMFAIL_IOCTL_H

/* One ioctl, repeated when a signal interrupts it: 0 or -errno. */
int drm_call(int fd, unsigned long request, void *argument);

#endif
