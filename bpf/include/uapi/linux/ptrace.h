/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * struct pt_regs as a probe sees it: arch/x86/include/asm/ptrace.h and
 * arch/arm64/include/{uapi/,}asm/ptrace.h. BCC's PT_REGS_* macros read these members by name.
 * Only the leading part that BPF lets a program read is given.
 */
#ifndef __UAPI_LINUX_PTRACE_H
#define __UAPI_LINUX_PTRACE_H

#if defined(__TARGET_ARCH_x86) || defined(__x86_64__)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx;
	unsigned long r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};
#elif defined(__TARGET_ARCH_arm64) || defined(__aarch64__)
struct user_pt_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 pstate;
};

struct pt_regs {
	union {
		struct user_pt_regs user_regs;
		struct {
			__u64 regs[31];
			__u64 sp;
			__u64 pc;
			__u64 pstate;
		};
	};
};
#else
#error "panthor-trace traces x86_64 and arm64 only"
#endif

#endif
