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
	u32 has_result;
};

BPF_ARRAY(vulkan_functions, struct vulkan_function, VULKAN_FUNCTIONS);

/*
 * The number of the function a program is attached to. Compiling is most of what a start takes, so
 * each program is compiled once; it is loaded once a function, with its number in this place
 * (capture/numbered.py).
 */
static __always_inline u32 function_number(void)
{
	u32 number;

	asm volatile("%0 = %1" : "=r"(number) : "i"(NUMBER_PLACE));
	return number;
}

static __always_inline u64 argument(const struct vulkan_in_flight *call, u32 which)
{
	return which < VULKAN_ARGS ? call->args[which] : 0;
}

/* Make room for another call of the thread: the one noted has not returned. */
static __always_inline void set_outer_aside(struct thread *thread, u32 tid)
{
	struct vulkan_key key = {.sp = thread->vulkan.sp, .tid = tid};
	struct vulkan_outer outer = {.tgid = thread->tgid, .call = thread->vulkan};

	if (vulkan_outer.update(&key, &outer))
		count(COUNTER_MISSED_VULKAN);
}

static __always_inline int vulkan_entered(struct pt_regs *ctx, bool submits)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();
	struct thread *thread = known_thread(pid_tgid);
	u32 number = function_number();
	const struct vulkan_function *has = vulkan_functions.lookup(&number);
	struct vulkan_in_flight *call;
	u64 bytes, pointee;

	if (!has)
		return 0;
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
	call->function = number;
	call->flags = 0;
	call->quiet = has->quiet;
	call->pointee_bytes = has->pointee_bytes;
	call->has_result = has->has_result;
	call->args[0] = PT_REGS_PARM1(ctx);
	call->args[1] = PT_REGS_PARM2(ctx);
	call->args[2] = PT_REGS_PARM3(ctx);
	call->args[3] = PT_REGS_PARM4(ctx);
	call->args[4] = PT_REGS_PARM5(ctx);
	call->args[5] = PT_REGS_PARM6(ctx);
	call->args[6] = has->arguments > 6 ? seventh_argument(ctx) : 0;
	bytes = has->pointee_bytes;
	if (bytes) {
		__builtin_memset(call->pointee, 0, POINTEE_BYTES);
		pointee = argument(call, has->pointee_arg);
		if (has->stride)
			bytes = (u64)(u32)argument(call, has->count_arg) * has->stride;
		if (bytes > has->pointee_bytes)
			bytes = has->pointee_bytes;
		/* As it stands: where the compiler folds this comparison into another one, 6.12's
		   verifier does not see that it bounds the read. */
		asm volatile("" : "+r"(bytes));
		if (pointee && bytes <= POINTEE_BYTES &&
		    bpf_probe_read_user(call->pointee, bytes, (void *)pointee)) {
			call->flags |= FLAG_FAULT_BEFORE;
			count(COUNTER_FAULTED);
		}
	}
	if (submits)
		record_command_buffers(call->args[2], call->args[1], has->submit, call->enter_ns,
		                       &call->flags);
	return 0;
}

int vulkan_enter(struct pt_regs *ctx)
{
	return vulkan_entered(ctx, false);
}

/* Apart, for the verifier goes through all of it once a function. */
int vulkan_enter_submit(struct pt_regs *ctx)
{
	return vulkan_entered(ctx, true);
}

/* The record of a call that has returned; whether it is in the ring. */
static __always_inline bool record_vulkan(const struct vulkan_in_flight *call, u64 pid_tgid,
                                          u64 enter_ns, s32 result)
{
	struct vulkan_record *record;

	if (call->quiet && call->quiet == result)
		return false;
	record = call_returned(sizeof(struct vulkan_record), RECORD_VULKAN, call->flags, pid_tgid,
	                       enter_ns, COUNTER_LOST_VULKAN);
	if (!record)
		return false;
	record->result = result;
	record->function = call->function;
	__builtin_memcpy(record->args, call->args, sizeof(record->args));
	if (call->pointee_bytes)
		__builtin_memcpy(record->pointee, call->pointee, POINTEE_BYTES);
	else
		__builtin_memset(record->pointee, 0, POINTEE_BYTES);
	events.ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return true;
}

int vulkan_exit(struct pt_regs *ctx)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();
	struct thread *thread = known_thread(pid_tgid);
	struct vulkan_key key = {.sp = PT_REGS_SP(ctx), .tid = (u32)pid_tgid};
	struct vulkan_outer *outer = NULL;
	struct vulkan_in_flight *call;
	/* VkResult is 32 bits wide; what the register holds above it is left over. */
	s32 result = PT_REGS_RC(ctx);
	u64 enter_ns;

	if (!thread) {
		if (is_traced(pid_tgid))
			count(COUNTER_UNMATCHED_VULKAN);
		return 0;
	}
	call = &thread->vulkan;
	enter_ns = call->enter_ns;
	if (enter_ns && call->sp == key.sp) {
		call->enter_ns = 0;
	} else {
		outer = vulkan_outer.lookup(&key);
		if (!outer) {
			count(COUNTER_UNMATCHED_VULKAN);
			return 0;
		}
		call = &outer->call;
		enter_ns = call->enter_ns;
	}
	/* A function without a VkResult leaves anything in the register. */
	if (record_vulkan(call, pid_tgid, enter_ns, result) && call->has_result && result < 0)
		call_failed(ctx, true, RECORD_VULKAN, call->function, result, enter_ns);
	if (outer)
		vulkan_outer.delete(&key);
	return 0;
}
