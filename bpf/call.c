// SPDX-License-Identifier: GPL-2.0-only
/*
 * How every recorded call begins and ends: find the thread it is of, make its record, send that
 * and, of a failure, the stack.
 */

/* What the records of calls have in common. */
struct call_record {
	struct record_head head;
	u64 exit_ns;
};

_Static_assert(__builtin_offsetof(struct ioctl_record, exit_ns) == sizeof(struct record_head) &&
                   __builtin_offsetof(struct vulkan_record, exit_ns) ==
                       sizeof(struct record_head) &&
                   __builtin_offsetof(struct mapping_record, exit_ns) == sizeof(struct record_head),
               "exit_ns follows the head in the record of every call");

/* The thread's entry, if it has one: only traced ones have. */
static __always_inline struct thread *known_thread(u64 pid_tgid)
{
	u32 tid = pid_tgid;
	struct thread *thread = threads.lookup(&tid);

	if (!thread || !thread->alive || thread->tgid != pid_tgid >> 32)
		return NULL;
	return thread;
}

/* An entry for a thread that has none; `missed` counts that there is no room for it. */
static __always_inline struct thread *new_thread(u64 pid_tgid, u32 missed)
{
	u32 tid = pid_tgid, zero = 0;
	struct thread *thread = new_threads.lookup(&zero);

	if (!thread)
		return NULL;
	if (threads.update(&tid, thread)) {
		count(missed);
		return NULL;
	}
	thread = threads.lookup(&tid);
	if (!thread)
		return NULL;
	thread->tgid = pid_tgid >> 32;
	thread->alive = 1;
	return thread;
}

/* The record of a call that returns now, its head filled in; NULL, and counted as `lost`, where the
   ring has no room for it. */
static __always_inline void *call_returned(u32 size, u8 type, u8 flags, u64 pid_tgid, u64 enter_ns,
                                           u32 lost)
{
	struct call_record *record = events.ringbuf_reserve(size);

	if (!record) {
		count(lost);
		return NULL;
	}
	fill_head_of(&record->head, type, flags, pid_tgid, enter_ns);
	record->exit_ns = bpf_ktime_get_ns();
	return record;
}

/* A call failed (`what` with `error`); its record is in the ring. Each place this is called from is
   a copy of it, and the longest part of what is compiled when a recording starts. */
static __always_inline void call_failed(void *ctx, bool with_stack, u32 type, u64 what, s64 error,
                                        u64 enter_ns)
{
	if (with_stack)
		record_stack(ctx, type, what, error, enter_ns);
	note_failure(type, what, error, enter_ns);
}
