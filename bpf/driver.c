// SPDX-License-Identifier: GPL-2.0-only
/*
 * Inside the driver: functions of panthor and of DRM below it that can refuse, that do what no
 * ioctl shows (heap growth, faults, resets), or that tell which object an id stands for.
 *
 * Two programs serve all of them. What to do with a function is a row of `driver_probes`, found by
 * the function's address; the rows come from capture/driver_table.py, the argument registers and
 * member offsets in them from the running kernel's type information.
 *
 * A kprobe on a function that an interrupt or a kernel thread runs fires for everybody's work. Such
 * work belongs to whoever made the VM it is done in.
 */
#define ARGUMENTS     8
#define BASE_RETURN   ARGUMENTS
#define HOPS          3
#define KERNEL_FRAMES 48
#define ERROR_LOWEST  -4095

#if defined(__TARGET_ARCH_x86) || defined(__x86_64__)
#define KRETPROBE_RETURN_BYTES 8
#else
#define KRETPROBE_RETURN_BYTES 0
#endif

enum driver_flag {
	/* Record success too. */
	DRIVER_ALWAYS = 1 << 0,
	DRIVER_RETURNS_INT = 1 << 1,
	DRIVER_RETURNS_POINTER = 1 << 2,
	/* Recorded at entry; there is no return probe. */
	DRIVER_ENTRY_ONLY = 1 << 3,
	/* Has an entry probe: arguments are at hand when it returns. */
	DRIVER_HAS_ENTRY = 1 << 4,
	/* It makes a VM: what is done in that is the caller's. */
	DRIVER_MAKES_VM = 1 << 5,
	/* Concerns all processes. */
	DRIVER_EVERYBODY = 1 << 6,
};

/* A value: an argument or what was returned, then `hops` pointers followed. 0 hops: itself. */
struct driver_path {
	s32 offsets[HOPS];
	u8 base;
	u8 hops;
	/* Bytes of what the last hop reads. */
	u8 size;
	u8 present;
};

/* Return addresses, innermost first; 0 behind the last. */
struct kernel_frames {
	u64 ip[KERNEL_FRAMES];
};

struct driver_probe {
	u32 function;
	u32 flags;
	/* Leads to the VM whose owner this is done for. */
	struct driver_path vm;
	struct driver_path values[DRIVER_VALUES];
};

struct driver_key {
	u64 sp;
	u64 tid;
};

struct driver_call {
	u64 enter_ns;
	u32 owner;
	u32 reserved;
	u64 args[ARGUMENTS];
};

BPF_HASH(driver_probes, u64, struct driver_probe, 256);
BPF_HASH(driver_calls, struct driver_key, struct driver_call, 4096);
/* struct panthor_vm -> process that made it. */
BPF_TABLE("lru_hash", u64, u32, driver_vms, 8192);
BPF_PERCPU_ARRAY(driver_scratch, struct driver_call, 1);
/*
 * A stack under a hash of all its frames. The kernel's own map of stacks (BPF_MAP_TYPE_STACK_TRACE)
 * drops a stack whose hash falls into another one's slot, which a dozen stacks in a thousand slots
 * do now and then.
 */
BPF_HASH(kernel_stacks, u64, struct kernel_frames, 1024);
BPF_PERCPU_ARRAY(frames_scratch, struct kernel_frames, 1);

/* `i` is a constant after unrolling. */
static __always_inline u64 kernel_argument(const struct pt_regs *ctx, u32 i)
{
#if KRETPROBE_RETURN_BYTES
	switch (i) {
	case 0:
		return PT_REGS_PARM1(ctx);
	case 1:
		return PT_REGS_PARM2(ctx);
	case 2:
		return PT_REGS_PARM3(ctx);
	case 3:
		return PT_REGS_PARM4(ctx);
	case 4:
		return PT_REGS_PARM5(ctx);
	case 5:
		return PT_REGS_PARM6(ctx);
	default:
		return 0;
	}
#else
	return ctx->regs[i];
#endif
}

static __always_inline u64 follow(const struct driver_path *path, const struct driver_call *call,
                                  u64 ret)
{
	u64 value = path->base < ARGUMENTS ? call->args[path->base & (ARGUMENTS - 1)] : ret;
	u32 hop;

#pragma clang loop unroll(full)
	for (hop = 0; hop < HOPS; hop++) {
		u32 size = hop + 1 == path->hops ? path->size : sizeof(u64);
		u64 next = 0;

		if (hop >= path->hops)
			break;
		if (size > sizeof(next))
			size = sizeof(next);
		bpf_probe_read_kernel(&next, size, (void *)(value + (s64)path->offsets[hop]));
		value = next;
	}
	return value;
}

static __always_inline u32 owner_of(const struct driver_probe *probe,
                                    const struct driver_call *call)
{
	u64 vm;
	u32 *owner;

	if (!probe->vm.present)
		return 0;
	vm = follow(&probe->vm, call, 0);
	owner = driver_vms.lookup(&vm);
	return owner ? *owner : 0;
}

/* The key of the stack we are on, 0 if it could not be kept. */
static __always_inline u64 keep_kernel_stack(struct pt_regs *ctx)
{
	u32 zero = 0;
	struct kernel_frames *frames = frames_scratch.lookup(&zero);
	/* FNV-1a, a frame at a time */
	u64 key = 0xcbf29ce484222325ULL;
	s64 bytes;
	u32 i;

	if (!frames)
		return 0;
	/* Clears what is behind the last frame. */
	bytes = bpf_get_stack(ctx, frames->ip, sizeof(frames->ip), 0);
	if (bytes > 0) {
#pragma clang loop unroll(full)
		for (i = 0; i < KERNEL_FRAMES; i++)
			key = (key ^ frames->ip[i]) * 0x100000001b3ULL;
		if (kernel_stacks.lookup(&key) || !kernel_stacks.update(&key, frames))
			return key;
	}
	count(COUNTER_LOST_KERNEL_STACK);
	return 0;
}

static __always_inline void record_driver(struct pt_regs *ctx, const struct driver_probe *probe,
                                          const struct driver_call *call, s64 ret, u64 sp,
                                          bool failed)
{
	struct thread *thread = known_thread(bpf_get_current_pid_tgid());
	struct driver_record *record;
	u64 stack = failed ? keep_kernel_stack(ctx) : 0;
	u32 i;

	record = events.ringbuf_reserve(sizeof(struct driver_record));
	if (!record) {
		count(COUNTER_LOST_DRIVER);
		return;
	}
	fill_head(&record->head, RECORD_DRIVER, 0, call->enter_ns);
	record->exit_ns = bpf_ktime_get_ns();
	record->ioctl_ns = thread ? thread->ioctl.enter_ns : 0;
	record->ret = ret;
	record->sp = sp;
	record->function = probe->function;
	record->owner = call->owner;
	record->stack = stack;
#pragma clang loop unroll(disable)
	for (i = 0; i < DRIVER_VALUES; i++)
		record->values[i] =
		    probe->values[i].present ? follow(&probe->values[i], call, ret) : 0;
	events.ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

int driver_enter(struct pt_regs *ctx)
{
	u64 ip = bpf_get_func_ip(ctx);
	struct driver_probe *probe = driver_probes.lookup(&ip);
	u64 pid_tgid = bpf_get_current_pid_tgid();
	struct driver_key key = {};
	struct driver_call *call;
	u32 zero = 0;
	u32 i;

	if (!probe)
		return 0;
	call = driver_scratch.lookup(&zero);
	if (!call)
		return 0;
#pragma clang loop unroll(full)
	for (i = 0; i < ARGUMENTS; i++)
		call->args[i] = kernel_argument(ctx, i);
	call->owner = is_traced(pid_tgid) ? pid_tgid >> 32 : owner_of(probe, call);
	if (!call->owner && !(probe->flags & (DRIVER_EVERYBODY | DRIVER_MAKES_VM)))
		return 0;
	call->enter_ns = bpf_ktime_get_ns();
	if (probe->flags & DRIVER_ENTRY_ONLY) {
		record_driver(ctx, probe, call, 0, PT_REGS_SP(ctx), false);
		return 0;
	}
	key.sp = PT_REGS_SP(ctx);
	key.tid = (u32)pid_tgid;
	if (driver_calls.update(&key, call))
		count(COUNTER_MISSED_DRIVER);
	return 0;
}

int driver_leave(struct pt_regs *ctx)
{
	u64 ip = bpf_get_func_ip(ctx);
	struct driver_probe *probe = driver_probes.lookup(&ip);
	u64 pid_tgid = bpf_get_current_pid_tgid();
	u64 sp = PT_REGS_SP(ctx) - KRETPROBE_RETURN_BYTES;
	struct driver_key key = {};
	struct driver_call *call;
	s64 ret = PT_REGS_RC(ctx);
	u32 zero = 0;
	bool failed;

	if (!probe)
		return 0;
	/* An int is 32 bits of the register; the upper half is whatever was there. */
	if (probe->flags & DRIVER_RETURNS_INT)
		ret = (s32)ret;
	failed = ret < 0 && ret >= ERROR_LOWEST;
	if (probe->flags & DRIVER_HAS_ENTRY) {
		key.sp = sp;
		key.tid = (u32)pid_tgid;
		call = driver_calls.lookup(&key);
		if (!call)
			return 0;
	} else {
		if (!failed || !is_traced(pid_tgid))
			return 0;
		call = driver_scratch.lookup(&zero);
		if (!call)
			return 0;
		/* When it began is not known. */
		call->enter_ns = bpf_ktime_get_ns();
		call->owner = pid_tgid >> 32;
	}
	if (probe->flags & DRIVER_MAKES_VM && !failed) {
		u64 vm = ret;

		/* Memory of a VM that is gone may be another process's new one. */
		if (call->owner)
			driver_vms.update(&vm, &call->owner);
		else
			driver_vms.delete(&vm);
	}
	if ((failed || probe->flags & DRIVER_ALWAYS) &&
	    (call->owner || probe->flags & DRIVER_EVERYBODY))
		record_driver(ctx, probe, call, ret, sp, failed);
	if (probe->flags & DRIVER_HAS_ENTRY)
		driver_calls.delete(&key);
	return 0;
}
