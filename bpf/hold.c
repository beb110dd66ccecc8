// SPDX-License-Identifier: GPL-2.0-only
/*
 * The first failure of each kind of a process, told to user space at once; and the process stopped
 * (SIGSTOP) at it, so that what user space then reads in /proc is the state of the failure.
 *
 * User space continues it. Who that is when user space fails, is in capture/guardian.py; the order
 * of steps in hold() is what its argument rests on.
 *
 * Nobody else may notice the stop: it is left out where a debugger or a parent would (job control),
 * where the process is being stopped already, and where it would see the SIGCONT. Where the
 * kernel's type information does not lead to what tells, nothing is held.
 */
struct failure_kind {
	u32 tgid;
	u32 of;
	u64 what;
	s64 error;
};

BPF_HASH(failure_kinds, struct failure_kind, u8, 4096);

#ifdef HOLD_OFFSETS
#define SIGCHLD 17
#define SIGCONT 18
#define SIGSTOP 19
#define SIGTSTP 20
#define SIGTTIN 21
#define SIGTTOU 22
#define SIG_IGN 1

#define SIGNAL_BIT(number) (1ULL << ((number) - 1))
#define STOP_SIGNALS                                                                               \
	(SIGNAL_BIT(SIGSTOP) | SIGNAL_BIT(SIGTSTP) | SIGNAL_BIT(SIGTTIN) | SIGNAL_BIT(SIGTTOU))
/* include/linux/sched/signal.h: all threads are stopped. */
#define SIGNAL_STOP_STOPPED 0x1
/* struct k_sigaction on 64-bit: handler, flags, restorer, mask. */
#define ACTION_BYTES 32
#define ACTION_FLAGS 8
#define SA_NOCLDSTOP 0x1
/* WUNTRACED of wait4(), WSTOPPED of waitid(). */
#define WAIT_STOPPED 0x2

/* A program that fails in ever new ways is not stopped for ever. */
#define HOLDS_PER_PROCESS 4

BPF_TABLE("lru_hash", u32, u32, hold_counts, 4096);
/* Processes that have asked for their children's stops. */
BPF_TABLE("lru_hash", u32, u8, stop_waiters, 4096);
/* The tracer, or 0: nothing is to be held. */
BPF_ARRAY(hold_by, u32, 1);
/* Wakes the guardian; never read. */
BPF_RINGBUF_OUTPUT(hold_wakeups, 16);
#define BPF_RB_FORCE_WAKEUP 2

#ifdef HOLD_WAITS
static __always_inline void note_wait(u32 options)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	u8 one = 1;

	if ((options & WAIT_STOPPED) && traced.lookup(&tgid))
		stop_waiters.update(&tgid, &one);
}

TRACEPOINT_PROBE(syscalls, sys_enter_wait4)
{
	note_wait(args->options);
	return 0;
}

TRACEPOINT_PROBE(syscalls, sys_enter_waitid)
{
	note_wait(args->options);
	return 0;
}
#endif

/* The word of sigaction[number] at `offset`. */
static __always_inline u64 action_of(u64 task, u32 number, u32 offset)
{
	u64 actions = read_pointer(task, TASK_SIGHAND) + SIGHAND_ACTION;

	return read_pointer(actions, (number - 1) * ACTION_BYTES + offset);
}

/* Whether `task` runs code of its own for `number`, or waits for it with sigwait() or signalfd. */
static __always_inline bool catches(u64 task, u32 number)
{
	return action_of(task, number, 0) > SIG_IGN ||
	       (read_pointer(task, TASK_BLOCKED) & SIGNAL_BIT(number));
}

/*
 * Whether the parent could come to know of its child's stop: by a wait that asks for stops (a shell
 * with job control, sudo, su), or by SIGCHLD. The tracer is the parent of the command and asks for
 * neither. Of another process we know only where we saw it from its first instruction.
 */
static __always_inline bool takes_notice(u64 parent, u32 tracer)
{
	u32 tgid = read_u32(parent, TASK_TGID);

	if (tgid == tracer)
		return false;
#ifdef HOLD_WAITS
	if (!traced.lookup(&tgid) || stop_waiters.lookup(&tgid))
		return true;
	return catches(parent, SIGCHLD) &&
	       !(action_of(parent, SIGCHLD, ACTION_FLAGS) & SA_NOCLDSTOP);
#else
	return true;
#endif
}

static __always_inline u32 why_not_held(u64 task, u32 tracer)
{
	u64 signal = read_pointer(task, TASK_SIGNAL);
	u64 pending = read_pointer(task, TASK_PENDING + SIGPENDING_SIGNAL) |
	              read_pointer(signal, SIGNAL_SHARED_PENDING + SIGPENDING_SIGNAL);

	if (read_u32(task, TASK_PTRACE))
		return HOLD_TRACED;
	if ((pending & STOP_SIGNALS) || read_u32(signal, SIGNAL_GROUP_STOP_COUNT) ||
	    (read_u32(signal, SIGNAL_FLAGS) & SIGNAL_STOP_STOPPED))
		return HOLD_STOPPING;
	if (catches(task, SIGCONT))
		return HOLD_CATCHES;
	return takes_notice(read_pointer(task, TASK_REAL_PARENT), tracer) ? HOLD_PARENT : HOLD_HELD;
}

/* The tracer's process id while holding is on. Read anew each time. */
static __always_inline u32 holding_for(void)
{
	u32 zero = 0;
	volatile u32 *tracer = hold_by.lookup(&zero);

	return tracer ? *tracer : 0;
}

static __always_inline u32 hold(u32 tgid, u64 now)
{
	u32 tracer = holding_for(), one = 1;
	struct held_process entry = {};
	u32 *times, why;

	if (!tracer)
		return HOLD_OFF;
	why = why_not_held(bpf_get_current_task(), tracer);
	if (why != HOLD_HELD)
		return why;
	times = hold_counts.lookup(&tgid);
	if (times && *times >= HOLDS_PER_PROCESS)
		return HOLD_OFTEN;
	/*
	 * First known to be held, then stopped: whoever takes over from the tracer finds it. Of two
	 * threads that fail at once, one gets to stop their process. Whoever turns holding off
	 * looks for processes held after that; so this looks whether it is off after the process is
	 * known.
	 */
	entry.since_ns = now;
	if (held.insert(&tgid, &entry))
		return HOLD_ALREADY;
	if (!holding_for()) {
		held.delete(&tgid);
		return HOLD_OFF;
	}
	if (bpf_send_signal(SIGSTOP)) {
		held.delete(&tgid);
		return HOLD_REFUSED;
	}
	if (times)
		__sync_fetch_and_add(times, 1);
	else
		hold_counts.update(&tgid, &one);
	hold_wakeups.ringbuf_output(&entry, sizeof(entry), BPF_RB_FORCE_WAKEUP);
	return HOLD_HELD;
}
#else
static __always_inline u32 hold(u32 tgid, u64 now)
{
	return HOLD_OFF;
}
#endif

/* To be called at every failure, when its own record is in the ring. */
static __always_inline void note_failure(u32 of, u64 what, s64 error, u64 enter_ns)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct failure_kind kind = {.tgid = tgid, .of = of, .what = what, .error = error};
	struct failure_record *record;
	u8 one = 1;

	if (failure_kinds.lookup(&kind) || failure_kinds.insert(&kind, &one))
		return;
	/* Of a process that is held, user space has to be told: no room, no hold. */
	record = events.ringbuf_reserve(sizeof(struct failure_record));
	if (!record) {
		count(COUNTER_LOST_FAILURE);
		return;
	}
	fill_head(&record->head, RECORD_FAILURE, 0, enter_ns);
	record->when_ns = bpf_ktime_get_ns();
	record->what = what;
	record->error = error;
	record->of = of;
	record->hold = hold(tgid, record->when_ns);
	events.ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}
