/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Only a unit: BPF_RINGBUF_OUTPUT() multiplies its size by it. arm64 kernels have pages of 4, 16 or
 * 64 KiB; a ring of a power of two not below 64 KiB suits them all.
 */
#ifndef __ASM_PAGE_H
#define __ASM_PAGE_H
#define PAGE_SIZE 4096
#endif
