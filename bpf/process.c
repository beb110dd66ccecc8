// SPDX-License-Identifier: GPL-2.0-only
/*
 * The traced process tree, the ring, and the counters every other program uses.
 *
 * The launcher puts its child into `traced` before that child runs; from there on the tree follows
 * itself: task_newtask fires in the parent before the child's first instruction, so nothing is
 * missed. sched_process_fork would do as well, but does not tell a thread from a process.
 */
#define CLONE_THREAD     0x00010000
#define BPF_RB_NO_WAKEUP 1

BPF_RINGBUF_OUTPUT(events, RING_UNITS);
BPF_PERCPU_ARRAY(counters, u64, COUNTER_COUNT);
/* tgid -> live threads */
BPF_HASH(traced, u32, u32, 8192);

/* Processes that are stopped, or about to be, until user space continues them (hold.c). An entry
   goes with its process before that is reaped: while it is there, the number is not another's. */
struct held_process {
	u64 since_ns;
};
BPF_HASH(held, u32, struct held_process, 256);

static __always_inline void count(u32 which)
{
	u64 *value = counters.lookup(&which);

	if (value)
		__sync_fetch_and_add(value, 1);
}

static __always_inline bool is_traced(u64 pid_tgid)
{
	u32 tgid = pid_tgid >> 32;

	return traced.lookup(&tgid) != NULL;
}

static __always_inline void fill_head_of(struct record_head *head, u8 type, u8 flags, u64 pid_tgid,
                                         u64 enter_ns)
{
	head->type = type;
	head->flags = flags;
	head->reserved = 0;
	head->tgid = pid_tgid >> 32;
	head->tid = pid_tgid;
	head->reserved2 = 0;
	head->enter_ns = enter_ns;
}

static __always_inline void fill_head(struct record_head *head, u8 type, u8 flags, u64 enter_ns)
{
	fill_head_of(head, type, flags, bpf_get_current_pid_tgid(), enter_ns);
}

static __always_inline u64 read_pointer(u64 base, u32 offset)
{
	u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)(base + offset));
	return value;
}

static __always_inline u32 read_u32(u64 base, u32 offset)
{
	u32 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)(base + offset));
	return value;
}

static __always_inline void process_event(u32 event, u32 flags, u32 child, const void *path)
{
	struct process_record *record = events.ringbuf_reserve(sizeof(struct process_record));

	if (!record) {
		count(COUNTER_LOST_PROCESS);
		return;
	}
	fill_head(&record->head, RECORD_PROCESS, flags, bpf_ktime_get_ns());
	record->event = event;
	record->child = child;
	__builtin_memset(record->path, 0, PATH_BYTES);
	if (path)
		bpf_probe_read_kernel_str(record->path, PATH_BYTES, path);
	events.ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

TRACEPOINT_PROBE(task, task_newtask)
{
	u32 parent = bpf_get_current_pid_tgid() >> 32;
	u32 *threads = traced.lookup(&parent);
	u32 child = args->pid;
	u32 one = 1;

	if (!threads)
		return 0;
	if (args->clone_flags & CLONE_THREAD) {
		__sync_fetch_and_add(threads, 1);
		return 0;
	}
	if (traced.update(&child, &one)) {
		count(COUNTER_MISSED_PROCESS);
		return 0;
	}
	process_event(PROCESS_FORK, 0, child, NULL);
	return 0;
}

TRACEPOINT_PROBE(sched, sched_process_exec)
{
	if (is_traced(bpf_get_current_pid_tgid()))
		process_event(PROCESS_EXEC, 0, 0,
		              (void *)args + (args->data_loc_filename & 0xffff));
	return 0;
}

/*
 * Fires once a thread. A process ends with its last thread, which need not be the first one. The
 * kernel's own count of threads (signal->live, already without this one) is exact also for a
 * process that was running when the recording began; where it cannot be read we count ourselves.
 */
TRACEPOINT_PROBE(sched, sched_process_exit)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();
	u32 tgid = pid_tgid >> 32;
	u32 *threads = traced.lookup(&tgid);
	u32 flags = FLAG_FAULT_AFTER;
	u32 status = 0;

	if (!threads)
		return 0;
	forget_thread(pid_tgid);
#ifdef SIGNAL_LIVE
	u64 task = bpf_get_current_task();

	if (read_u32(read_pointer(task, TASK_SIGNAL), SIGNAL_LIVE) != 0)
		return 0;
	status = read_u32(task, TASK_EXIT_CODE);
	flags = 0;
#else
	__sync_fetch_and_add(threads, -1);
	if (*threads != 0)
		return 0;
#endif
	held.delete(&tgid);
	/* Two last threads may both get here; only one of them deletes the entry. */
	if (traced.delete(&tgid) == 0)
		process_event(PROCESS_EXIT, flags, status, NULL);
	return 0;
}
