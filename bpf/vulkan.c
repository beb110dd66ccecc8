// SPDX-License-Identifier: GPL-2.0-only
/*
 * Vulkan calls, by uprobes on the exported functions of libvulkan.so.1.
 *
 * A call in flight is known by its thread and its stack pointer: the return probe sees the same
 * stack pointer again (on x86_64 without the return address), whatever else was entered in between.
 * The innermost call is noted with its thread; one around it, or one that never returned, is put
 * aside, and what is still there is collected when the recording ends.
 * The loader's functions tail-call the driver's, so a return probe sees the driver's VkResult.
 */
#if defined(__TARGET_ARCH_x86) || defined(__x86_64__)
#define RETURN_ADDRESS_BYTES 8
#else
#define RETURN_ADDRESS_BYTES 0
#endif

/* Calls around the innermost one, and calls that never returned. */
BPF_HASH(vulkan_outer, struct vulkan_key, struct vulkan_outer, 4096);

/* The seventh argument: on x86_64 the first one on the stack, behind the return address. */
static __always_inline u64 seventh_argument(struct pt_regs *ctx)
{
#if RETURN_ADDRESS_BYTES
	u64 value = 0;

	bpf_probe_read_user(&value, sizeof(value),
	                    (void *)(PT_REGS_SP(ctx) + RETURN_ADDRESS_BYTES));
	return value;
#else
	return ctx->regs[6];
#endif
}

/* What one function has, a row of uapi/vulkan.py. */
struct vulkan_function {
	u32 number;
	u32 arguments;
	/* Which argument points to what is copied, and how much; where it is an array, which
	   argument counts its elements of `stride` bytes. */
	u32 pointee_arg;
	u32 pointee_bytes;
	u32 count_arg;
	u32 stride;
	/* 1, 2: it is given VkSubmitInfo, VkSubmitInfo2. */
	u32 submit;
	s32 quiet;
};

/* Make room for another call of the thread: the one noted has not returned. */
static __always_inline void set_outer_aside(struct thread *thread, u32 tid)
{
	struct vulkan_key key = {.sp = thread->vulkan.sp, .tid = tid};
	struct vulkan_outer outer = {.tgid = thread->tgid, .call = thread->vulkan};

	if (vulkan_outer.update(&key, &outer))
		count(COUNTER_MISSED_VULKAN);
}

/* `has` is constant after inlining: a function pays only for what it has. */
static __always_inline int vulkan_enter(struct pt_regs *ctx, const struct vulkan_function has)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();
	struct thread *thread = known_thread(pid_tgid);
	struct vulkan_in_flight *call;
	u64 bytes = has.pointee_bytes;

	if (!thread) {
		if (!is_traced(pid_tgid))
			return 0;
		thread = new_thread(pid_tgid, COUNTER_MISSED_VULKAN);
		if (!thread)
			return 0;
	}
	call = &thread->vulkan;
	if (call->enter_ns)
		set_outer_aside(thread, pid_tgid);
	call->enter_ns = bpf_ktime_get_ns();
	call->sp = PT_REGS_SP(ctx) + RETURN_ADDRESS_BYTES;
	call->function = has.number;
	call->flags = 0;
	call->quiet = has.quiet;
	call->pointee_bytes = has.pointee_bytes;
	call->args[0] = PT_REGS_PARM1(ctx);
	call->args[1] = PT_REGS_PARM2(ctx);
	call->args[2] = PT_REGS_PARM3(ctx);
	call->args[3] = PT_REGS_PARM4(ctx);
	call->args[4] = PT_REGS_PARM5(ctx);
	call->args[5] = PT_REGS_PARM6(ctx);
	call->args[6] = has.arguments > 6 ? seventh_argument(ctx) : 0;
	if (has.pointee_bytes)
		__builtin_memset(call->pointee, 0, POINTEE_BYTES);
	if (has.stride) {
		bytes = (u64)(u32)call->args[has.count_arg] * has.stride;
		if (bytes > has.pointee_bytes)
			bytes = has.pointee_bytes;
	}
	if (bytes && call->args[has.pointee_arg] &&
	    bpf_probe_read_user(call->pointee, bytes, (void *)call->args[has.pointee_arg])) {
		call->flags |= FLAG_FAULT_BEFORE;
		count(COUNTER_FAULTED);
	}
	if (has.submit)
		call->flags |= record_command_buffers(call->args[2], call->args[1], has.submit,
		                                      call->enter_ns);
	return 0;
}

/* The record of a call that has returned. A function without a VkResult leaves anything in the
   register: only `has_result` tells a failure. */
static __always_inline void record_vulkan(struct pt_regs *ctx, const struct vulkan_in_flight *call,
                                          u64 pid_tgid, u64 enter_ns, bool has_result)
{
	/* VkResult is 32 bits wide; what the register holds above it is left over. */
	s32 result = PT_REGS_RC(ctx);
	struct vulkan_record *record;

	if (call->quiet && call->quiet == result)
		return;
	record = call_returned(sizeof(struct vulkan_record), RECORD_VULKAN, call->flags, pid_tgid,
	                       enter_ns, COUNTER_LOST_VULKAN);
	if (!record)
		return;
	record->result = result;
	record->function = call->function;
	__builtin_memcpy(record->args, call->args, sizeof(record->args));
	if (call->pointee_bytes)
		__builtin_memcpy(record->pointee, call->pointee, POINTEE_BYTES);
	else
		__builtin_memset(record->pointee, 0, POINTEE_BYTES);
	call_recorded(ctx, record, has_result && result < 0, RECORD_VULKAN, call->function, result,
	              enter_ns);
}

static __always_inline int vulkan_leave(struct pt_regs *ctx, bool has_result)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();
	struct thread *thread = known_thread(pid_tgid);
	struct vulkan_key key = {.sp = PT_REGS_SP(ctx), .tid = (u32)pid_tgid};
	struct vulkan_outer *outer;
	u64 enter_ns;

	if (!thread) {
		if (is_traced(pid_tgid))
			count(COUNTER_UNMATCHED_VULKAN);
		return 0;
	}
	enter_ns = thread->vulkan.enter_ns;
	if (enter_ns && thread->vulkan.sp == key.sp) {
		thread->vulkan.enter_ns = 0;
		record_vulkan(ctx, &thread->vulkan, pid_tgid, enter_ns, has_result);
		return 0;
	}
	outer = vulkan_outer.lookup(&key);
	if (!outer) {
		count(COUNTER_UNMATCHED_VULKAN);
		return 0;
	}
	record_vulkan(ctx, &outer->call, pid_tgid, outer->call.enter_ns, has_result);
	vulkan_outer.delete(&key);
	return 0;
}

int vulkan_exit(struct pt_regs *ctx)
{
	return vulkan_leave(ctx, false);
}

int vulkan_exit_result(struct pt_regs *ctx)
{
	return vulkan_leave(ctx, true);
}

/* One entry program a function; the rows are generated from uapi/vulkan.py and follow this file. */
#define VULKAN_ENTER(function, ...)                                                                \
	int vulkan_enter_##function(struct pt_regs *ctx)                                           \
	{                                                                                          \
		return vulkan_enter(ctx, (struct vulkan_function){function, __VA_ARGS__});         \
	}
