/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * BCC writes this into the "version" section of every program. Kernels since 5.0 ignore it
 * (commit 6c4fc209fcf9); what a kernel can do is found by trying, never by its version.
 */
#ifndef __LINUX_VERSION_H
#define __LINUX_VERSION_H
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE      KERNEL_VERSION(5, 8, 0)
#endif
