// SPDX-License-Identifier: GPL-2.0-only
/*
 * Vulkan calls, by uprobes on the exported functions of libvulkan.so.1.
 *
 * A call in flight is known by its thread and its stack pointer: the return probe sees the same
 * stack pointer again (on x86_64 less the return address), whatever else was entered in between,
 * and calls that never return leave their entry behind, to be collected when the recording ends.
 * The loader's functions tail-call the driver's, so a return probe sees the driver's VkResult.
 */
#if defined(__TARGET_ARCH_x86) || defined(__x86_64__)
#define RETURN_ADDRESS_BYTES 8
#else
#define RETURN_ADDRESS_BYTES 0
#endif

struct vulkan_key {
	u64 sp;
	u64 tid;
};

struct vulkan_in_flight {
	u64 enter_ns;
	u32 function;
	u32 tgid;
	u64 args[VULKAN_ARGS];
	u64 flags;
	/* A result that is not recorded, or 0. */
	s64 quiet;
	u8 pointee[POINTEE_BYTES];
};

BPF_HASH(vulkan_in_flight, struct vulkan_key, struct vulkan_in_flight, 4096);

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

/* `has` is constant after inlining: a function pays only for what it has. */
static __always_inline int vulkan_enter(struct pt_regs *ctx, const struct vulkan_function has)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();
	struct vulkan_in_flight call = {};
	struct vulkan_key key = {};
	u64 bytes = has.pointee_bytes;

	if (!is_traced(pid_tgid))
		return 0;
	call.enter_ns = bpf_ktime_get_ns();
	call.function = has.number;
	call.tgid = pid_tgid >> 32;
	call.quiet = has.quiet;
	call.args[0] = PT_REGS_PARM1(ctx);
	call.args[1] = PT_REGS_PARM2(ctx);
	call.args[2] = PT_REGS_PARM3(ctx);
	call.args[3] = PT_REGS_PARM4(ctx);
	call.args[4] = PT_REGS_PARM5(ctx);
	call.args[5] = PT_REGS_PARM6(ctx);
	if (has.arguments > 6)
		call.args[6] = seventh_argument(ctx);
	if (has.stride) {
		bytes = (u64)(u32)call.args[has.count_arg] * has.stride;
		if (bytes > has.pointee_bytes)
			bytes = has.pointee_bytes;
	}
	if (bytes && call.args[has.pointee_arg] &&
	    bpf_probe_read_user(call.pointee, bytes, (void *)call.args[has.pointee_arg])) {
		call.flags |= FLAG_FAULT_BEFORE;
		count(COUNTER_FAULTED);
	}
	if (has.submit)
		call.flags |=
		    record_command_buffers(call.args[2], call.args[1], has.submit, call.enter_ns);
	key.sp = PT_REGS_SP(ctx);
	key.tid = (u32)pid_tgid;
	if (vulkan_in_flight.update(&key, &call))
		count(COUNTER_MISSED_VULKAN);
	return 0;
}

/* A function without a VkResult leaves anything in the register: only `has_result` tells a failure.
 */
static __always_inline int vulkan_leave(struct pt_regs *ctx, bool has_result)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();
	struct vulkan_in_flight *call;
	struct vulkan_record *record;
	struct vulkan_key key = {};
	u32 function;
	u64 enter_ns;
	s32 result;

	if (!is_traced(pid_tgid))
		return 0;
	key.sp = PT_REGS_SP(ctx) - RETURN_ADDRESS_BYTES;
	key.tid = (u32)pid_tgid;
	call = vulkan_in_flight.lookup(&key);
	if (!call) {
		count(COUNTER_UNMATCHED_VULKAN);
		return 0;
	}
	if (call->quiet && call->quiet == (s32)PT_REGS_RC(ctx)) {
		vulkan_in_flight.delete(&key);
		return 0;
	}
	record = events.ringbuf_reserve(sizeof(struct vulkan_record));
	if (!record) {
		count(COUNTER_LOST_VULKAN);
		vulkan_in_flight.delete(&key);
		return 0;
	}
	fill_head(&record->head, RECORD_VULKAN, call->flags, call->enter_ns);
	record->exit_ns = bpf_ktime_get_ns();
	/* VkResult is 32 bits wide; what the register holds above it is left over. */
	result = (s32)PT_REGS_RC(ctx);
	function = call->function;
	enter_ns = call->enter_ns;
	record->result = result;
	record->function = function;
	__builtin_memcpy(record->args, call->args, sizeof(record->args));
	__builtin_memcpy(record->pointee, call->pointee, POINTEE_BYTES);
	vulkan_in_flight.delete(&key);
	events.ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	if (has_result && result < 0) {
		record_stack(ctx, RECORD_VULKAN, function, result, enter_ns);
		note_failure(RECORD_VULKAN, function, result, enter_ns);
	}
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
