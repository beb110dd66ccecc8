/* SPDX-License-Identifier: GPL-2.0-only */
/* BCC includes this first; helpers.h asks for nothing but this symbol. */
#ifndef __LINUX_KCONFIG_H
#define __LINUX_KCONFIG_H
#define CONFIG_BPF_SYSCALL 1
#endif
