// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ioctl boundary: every DRM ioctl of the traced processes on a panthor node, with the argument
 * as it was before and after, and the array it points to.
 *
 * A node is known by its device number, read from the file behind the descriptor: descriptors are
 * duplicated, passed and reused, and the same ioctl numbers mean something else on another driver's
 * node. User space fills `nodes` with the device numbers whose driver is panthor. The offsets that
 * lead there (TASK_FILES…) come from the running kernel's BTF. Where the ioctl is caught,
 * IOCTL_HOOK_DRM decides; the records are the same.
 */
#define DRM_IOCTL_BASE 'd'
#define IOC_TYPE(cmd)  (((cmd) >> 8) & 0xff)
#define IOC_NR(cmd)    ((cmd) & 0xff)
#define IOC_SIZE(cmd)  (((cmd) >> 16) & 0x3fff)

/* What a `pointees` entry says about an ioctl's argument. */
#define POINTEE_ARRAY  (1 << 8)
#define POINTEE_STRING (2 << 8)
#define POINTEE_POINTS (4 << 8)
#define POINTEE_OFFSET 0xff

/* As many points of sync objects as one array record holds, 8 bytes each, and behind them the
   objects' handles, 4 bytes each. */
#define POINTS        16
#define HANDLES_PLACE (POINTS * 8)

struct obj_array {
	u32 stride;
	u32 count;
	u64 array;
};

/* The head of struct drm_syncobj_timeline_wait. */
struct points_wait {
	u64 handles;
	u64 points;
	s64 timeout;
	u32 count;
	u32 flags;
};

/* Device numbers of panthor's nodes. */
BPF_HASH(nodes, u32, u32, 64);
/* By ioctl number: where in the argument an array or a string is pointed to, or 0. */
BPF_ARRAY(pointees, u32, 256);
/* By ioctl number: the errnos below 64 that are part of its normal operation, one bit each. */
BPF_ARRAY(ordinary, u64, 256);

#ifdef IOCTL_HOOK_DRM
#define DESCRIPTORS_SEARCHED 512
struct descriptor_key {
	u64 file;
	u64 tgid;
};
BPF_TABLE("lru_hash", struct descriptor_key, u32, descriptors, 1024);
#endif

/* A member of what the verifier knows the type of: a load, where another address takes a call. */
static __always_inline u64 member(u64 base, u32 offset)
{
	return *(volatile u64 *)(base + offset);
}

/* current->files->fdt->fd[fd], or 0 where there is no such file. */
static __always_inline u64 file_behind(u32 fd)
{
	u64 files = member((u64)bpf_get_current_task_btf(), TASK_FILES);
	u64 table = member(files, FILES_FDT);

	if (fd >= *(volatile u32 *)(table + FDT_MAX_FDS))
		return 0;
	return read_pointer(member(table, FDT_FD) + 8 * (u64)fd, 0);
}

/* file->f_inode->i_rdev, or 0 where there is no file. */
static __always_inline u32 device_number(u64 file)
{
	u64 inode = file ? read_pointer(file, FILE_INODE) : 0;

	return inode ? read_u32(inode, INODE_RDEV) : 0;
}

static __always_inline u32 argument_bytes(u32 cmd)
{
	u32 size = IOC_SIZE(cmd);

	return size > ARGUMENT_BYTES ? ARGUMENT_BYTES : size;
}

/* One record of an array; 0, or what went wrong as a flag. `length` is at most ARRAY_BYTES. */
static __always_inline u32 record_part(u64 address, u64 offset, u64 length, u64 enter_ns)
{
	struct array_record *record = events.ringbuf_reserve(sizeof(struct array_record));
	long error;

	if (!record)
		return FLAG_ARRAY_CUT;
	error = bpf_probe_read_user(record->bytes, length, (void *)(address + offset));
	/* A negative number shifted so far is all ones; a branch would double the verifier's work.
	 */
	error = (error >> 63) & FLAG_FAULT_BEFORE;
	fill_head(&record->head, RECORD_ARRAY, error, enter_ns);
	record->offset = offset;
	record->length = length;
	events.ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return error;
}

/*
 * Records what `address` holds, split over as many records as it takes. The verifier follows every
 * pass of the loop, and every branch in it that leads on to the next pass as often again: so whole
 * records go in the loop, and what is left over goes behind it.
 */
static __always_inline u32 record_array(u64 address, u64 total, u64 enter_ns)
{
	u64 offset = 0;
	u32 flags = 0;
	u32 i;

#pragma clang loop unroll(disable)
	for (i = 0; i < ARRAY_RECORDS; i++) {
		if (offset + ARRAY_BYTES > total)
			break;
		flags |= record_part(address, offset, ARRAY_BYTES, enter_ns);
		offset += ARRAY_BYTES;
	}
	total -= offset;
	if (total > ARRAY_BYTES)
		flags |= FLAG_ARRAY_CUT;
	else if (total)
		flags |= record_part(address, offset, total, enter_ns);
	if (flags & FLAG_FAULT_BEFORE)
		count(COUNTER_FAULTED);
	if (flags & FLAG_ARRAY_CUT)
		count(COUNTER_LOST_ARRAY);
	/* To the ioctl, it is the array that is incomplete, whatever the reason. */
	return flags ? FLAG_ARRAY_CUT : 0;
}

/* Which points of which sync objects are waited for. */
static __always_inline u32 record_points(u64 place, u64 enter_ns)
{
	struct array_record *record;
	struct points_wait wait = {};
	long error = 0;
	u64 number;

	if (bpf_probe_read_user(&wait, sizeof(wait), (void *)place))
		return FLAG_ARRAY_CUT;
	number = wait.count;
	/* Kept apart from where it was read to: the verifier forgets what it learned of memory. */
	asm volatile("" : "+r"(number));
	record = number <= POINTS ? events.ringbuf_reserve(sizeof(struct array_record)) : NULL;
	if (!record) {
		count(COUNTER_LOST_ARRAY);
		return FLAG_ARRAY_CUT;
	}
	__builtin_memset(record->bytes, 0, ARRAY_BYTES);
	/* Without points it is a wait for what is not a timeline: point 0. */
	if (wait.points)
		error = bpf_probe_read_user(record->bytes, number * 8, (void *)wait.points);
	error |=
	    bpf_probe_read_user(record->bytes + HANDLES_PLACE, number * 4, (void *)wait.handles);
	fill_head(&record->head, RECORD_ARRAY, error ? FLAG_FAULT_BEFORE : 0, enter_ns);
	record->offset = 0;
	record->length = ARRAY_BYTES;
	events.ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	if (error)
		count(COUNTER_FAULTED);
	return error ? FLAG_ARRAY_CUT : 0;
}

static __always_inline void record_pointee(struct ioctl_in_flight *call)
{
	u32 nr = IOC_NR(call->cmd);
	u32 *pointee = pointees.lookup(&nr);
	u64 place;

	if (!pointee || !*pointee)
		return;
	place = call->arg + (*pointee & POINTEE_OFFSET);
	if (*pointee & POINTEE_ARRAY) {
		struct obj_array array = {};

		if (bpf_probe_read_user(&array, sizeof(array), (void *)place)) {
			call->flags |= FLAG_ARRAY_CUT;
			return;
		}
		call->array_bytes = array.stride * array.count;
		call->flags |=
		    record_array(array.array, (u64)array.stride * array.count, call->enter_ns);
	} else if (*pointee & POINTEE_POINTS) {
		call->array_bytes = ARRAY_BYTES;
		call->flags |= record_points(place, call->enter_ns);
	} else {
		struct array_record *record;
		u64 string = 0;
		long length;

		if (bpf_probe_read_user(&string, sizeof(string), (void *)place) || !string)
			return;
		record = events.ringbuf_reserve(sizeof(struct array_record));
		if (!record) {
			count(COUNTER_LOST_ARRAY);
			call->flags |= FLAG_ARRAY_CUT;
			return;
		}
		fill_head(&record->head, RECORD_ARRAY, 0, call->enter_ns);
		record->offset = 0;
		length = bpf_probe_read_user_str(record->bytes, ARRAY_BYTES, (void *)string);
		record->length = length > 0 ? length : 0;
		call->array_bytes = record->length;
		events.ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	}
}

/* Whether this answer is a failure, as the model will see it (uapi/ioctls.py, is_ordinary). */
static __always_inline bool ioctl_failed(u32 cmd, s64 ret)
{
	u32 nr = IOC_NR(cmd);
	u64 *bits;

	if (ret >= 0)
		return false;
	if (ret <= -64)
		return true;
	bits = ordinary.lookup(&nr);
	return !bits || !(*bits >> -ret & 1);
}

#ifdef IOCTL_HOOK_DRM
/*
 * drm_ioctl() is not told the descriptor; ioctl(fd, cmd, arg) was, and its registers are at hand.
 * Where they hold something else (a 32-bit process on x86_64 passes them otherwise) any descriptor
 * that leads to the file will do, and the one found last time mostly still does.
 */
static __always_inline u32 descriptor_of(u32 tgid, u64 file, u32 cmd, u64 arg)
{
	struct pt_regs *user = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	struct descriptor_key key = {.file = file, .tgid = tgid};
	u64 table, slots;
	u32 fd, limit;
	u32 *known;

	if ((u32)PT_REGS_PARM2(user) == cmd && PT_REGS_PARM3(user) == arg)
		return PT_REGS_PARM1(user);
	known = descriptors.lookup(&key);
	if (known && file_behind(*known) == file)
		return *known;
	table = read_pointer(read_pointer(bpf_get_current_task(), TASK_FILES), FILES_FDT);
	slots = read_pointer(table, FDT_FD);
	limit = read_u32(table, FDT_MAX_FDS);
#pragma clang loop unroll(disable)
	for (fd = 0; fd < DESCRIPTORS_SEARCHED; fd++) {
		if (fd >= limit)
			break;
		if (read_pointer(slots, 8 * fd) == file) {
			/* A copy: the verifier follows no loop whose count lies in memory. */
			u32 found = fd;

			descriptors.update(&key, &found);
			return fd;
		}
	}
	return NO_DESCRIPTOR;
}
#endif

/* A panthor node's ioctl is remembered until it returns; other files' are passed over. */
static __always_inline int ioctl_enter(u64 pid_tgid, u64 file, u32 fd, u32 cmd, u64 arg)
{
	struct thread *thread = known_thread(pid_tgid);
	struct ioctl_in_flight *call;
	u32 rdev, size;

	if (!thread && !is_traced(pid_tgid))
		return 0;
	rdev = device_number(file);
	/* The node of this thread's last ioctl need not be looked for; 0 is no device. */
	if (!rdev || ((!thread || thread->ioctl.rdev != rdev) && !nodes.lookup(&rdev)))
		return 0;
	if (!thread) {
		thread = new_thread(pid_tgid, COUNTER_MISSED_IOCTL);
		if (!thread)
			return 0;
	}
	call = &thread->ioctl;
	call->enter_ns = bpf_ktime_get_ns();
	call->arg = arg;
	call->cmd = cmd;
	call->fd = fd;
	call->rdev = rdev;
	call->array_bytes = 0;
	call->flags = IOC_SIZE(cmd) > ARGUMENT_BYTES ? FLAG_ARGUMENT_CUT : 0;
	call->file = file;
#ifdef IOCTL_HOOK_DRM
	call->fd = descriptor_of(pid_tgid >> 32, file, cmd, arg);
#endif
	__builtin_memset(call->before, 0, ARGUMENT_BYTES);
	size = argument_bytes(cmd);
	if (size && bpf_probe_read_user(call->before, size, (void *)arg)) {
		call->flags |= FLAG_FAULT_BEFORE;
		count(COUNTER_FAULTED);
	}
	record_pointee(call);
	return 0;
}

static __always_inline int ioctl_leave(void *ctx, s64 ret)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();
	struct thread *thread = known_thread(pid_tgid);
	struct ioctl_in_flight *call;
	struct ioctl_record *record;
	u64 enter_ns;
	u32 size;

	if (!thread || !thread->ioctl.enter_ns)
		return 0;
	call = &thread->ioctl;
	enter_ns = call->enter_ns;
	call->enter_ns = 0;
	record = call_returned(sizeof(struct ioctl_record), RECORD_IOCTL, call->flags, pid_tgid,
	                       enter_ns, COUNTER_LOST_IOCTL);
	if (!record)
		return 0;
	record->ret = ret;
	record->arg = call->arg;
	record->cmd = call->cmd;
	record->fd = call->fd;
	record->rdev = call->rdev;
	record->array_bytes = call->array_bytes;
	record->file = call->file;
	__builtin_memcpy(record->before, call->before, ARGUMENT_BYTES);
	__builtin_memset(record->after, 0, ARGUMENT_BYTES);
	size = argument_bytes(call->cmd);
	if (size && bpf_probe_read_user(record->after, size, (void *)call->arg)) {
		record->head.flags |= FLAG_FAULT_AFTER;
		count(COUNTER_FAULTED);
	}
	events.ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	if (ioctl_failed(call->cmd, ret))
		call_failed(ctx, true, RECORD_IOCTL, call->cmd, ret, enter_ns);
	return 0;
}

#ifdef IOCTL_HOOK_DRM
/*
 * On the DRM path: long drm_ioctl(struct file *, unsigned int cmd, unsigned long arg), the
 * unlocked_ioctl of every DRM driver. Other processes' system calls pay nothing. A 32-bit process
 * gets here through drm_compat_ioctl() for all of panthor's ioctls; the few core ones of which DRM
 * has a 32-bit form of its own (VERSION and older) do not come by.
 */
int drm_ioctl_enter(struct pt_regs *ctx)
{
	return ioctl_enter(bpf_get_current_pid_tgid(), PT_REGS_PARM1(ctx), 0, PT_REGS_PARM2(ctx),
	                   PT_REGS_PARM3(ctx));
}

int drm_ioctl_leave(struct pt_regs *ctx)
{
	return ioctl_leave(ctx, PT_REGS_RC(ctx));
}
#else
/* Where the kernel has no kprobes: every ioctl() of every process comes by here. */
TRACEPOINT_PROBE(syscalls, sys_enter_ioctl)
{
	if (IOC_TYPE(args->cmd) != DRM_IOCTL_BASE)
		return 0;
	return ioctl_enter(bpf_get_current_pid_tgid(), file_behind(args->fd), args->fd, args->cmd,
	                   args->arg);
}

TRACEPOINT_PROBE(syscalls, sys_exit_ioctl)
{
	return ioctl_leave(args, args->ret);
}
#endif
