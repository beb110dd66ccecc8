// SPDX-License-Identifier: GPL-2.0-only
/*
 * The calls the traced threads are in. A thread's entry is made at its first recorded call and
 * stays until the thread ends: a call is then noted in place, found by one lookup, where an entry
 * a call would cost an insertion and a deletion in a hash, the dearest that there is in these
 * programs (docs/cost.md).
 */
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

struct ioctl_in_flight {
	/* 0: not in an ioctl; the rest is left over from the last one. */
	u64 enter_ns;
	u64 arg;
	u32 cmd;
	u32 fd;
	/* A node's; stays as it was also when the call is over. */
	u32 rdev;
	u32 array_bytes;
	u32 flags;
	u32 reserved;
	u64 file;
	u8 before[ARGUMENT_BYTES];
};

struct vulkan_in_flight {
	/* 0: not in a Vulkan call. */
	u64 enter_ns;
	/* The stack pointer its return will have. */
	u64 sp;
	u32 function;
	u32 flags;
	/* A result that is not recorded, or 0. */
	s32 quiet;
	/* How much of `pointee` is this call's: all of it or nothing. */
	u16 pointee_bytes;
	/* Whether the function returns a VkResult. */
	u16 has_result;
	u64 args[VULKAN_ARGS];
	u8 pointee[POINTEE_BYTES];
};

struct thread {
	u32 tgid;
	/* 0: it has ended inside a call, and the number may be another thread's by now. */
	u32 alive;
	struct ioctl_in_flight ioctl;
	/* The innermost call. */
	struct vulkan_in_flight vulkan;
};

struct vulkan_key {
	u64 sp;
	u64 tid;
};

struct vulkan_outer {
	u32 tgid;
	u32 reserved;
	struct vulkan_in_flight call;
};

BPF_HASH(threads, u32, struct thread, 4096);
/* What a thread starts with: nothing. Too large for the stack of a program. */
BPF_ARRAY(new_threads, struct thread, 1);

/* An ended thread's entry goes, unless it ended inside a call: that one is told of when the
   recording ends. */
static __always_inline void forget_thread(u32 tid)
{
	struct thread *thread = threads.lookup(&tid);

	if (!thread)
		return;
	if (thread->ioctl.enter_ns || thread->vulkan.enter_ns)
		thread->alive = 0;
	else
		threads.delete(&tid);
}
