// SPDX-License-Identifier: GPL-2.0-only
/*
 * The user stack of a failure, as build ids and offsets: that names the code wherever it was
 * loaded, also when the process is gone by the time somebody looks. The kernel follows frame
 * pointers, which arm64's compilers keep; without them (most of x86_64) the first frames are all
 * there is.
 *
 * At the first instruction of a function its caller's frame is not linked yet: the chain then leads
 * past the caller, whose return address has to be told.
 */
#define BPF_F_USER_STACK    (1ULL << 8)
#define BPF_F_USER_BUILD_ID (1ULL << 11)

/* A program that fails in a loop shall not fill the ring with the same stack. */
#define STACKS_PER_SITE 64

struct stack_site {
	u32 tgid;
	u32 of;
	u64 what;
	s64 error;
};

BPF_HASH(stack_sites, struct stack_site, u32, 4096);

/* `caller` is the return address at a function's first instruction, 0 anywhere else. */
static __always_inline void record_stack_of(void *ctx, u32 of, u64 what, s64 error, u64 enter_ns,
                                            u64 caller)
{
	struct stack_site site = {};
	struct stack_record *record;
	u32 *taken, one = 1;
	long bytes;

	site.tgid = bpf_get_current_pid_tgid() >> 32;
	site.of = of;
	site.what = what;
	site.error = error;
	taken = stack_sites.lookup(&site);
	if (!taken) {
		stack_sites.update(&site, &one);
	} else if (*taken >= STACKS_PER_SITE) {
		count(COUNTER_SKIPPED_STACK);
		return;
	} else {
		__sync_fetch_and_add(taken, 1);
	}
	record = events.ringbuf_reserve(sizeof(struct stack_record));
	if (!record) {
		count(COUNTER_LOST_STACK);
		return;
	}
	fill_head(&record->head, RECORD_STACK, 0, enter_ns);
	record->of = of;
	if (caller) {
		bytes = bpf_get_stack(ctx, &record->frame[1],
		                      sizeof(record->frame) - sizeof(record->frame[0]),
		                      BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
		record->frame[0] = record->frame[1];
		__builtin_memset(&record->frame[1], 0, sizeof(record->frame[1]));
		record->frame[1].status = FRAME_ADDRESS;
		record->frame[1].offset = caller;
		if (bytes > 0)
			bytes += sizeof(struct stack_frame);
	} else {
		bytes = bpf_get_stack(ctx, record->frame, sizeof(record->frame),
		                      BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
	}
	record->frames = bytes > 0 ? bytes / sizeof(struct stack_frame) : 0;
	events.ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

static __always_inline void record_stack(void *ctx, u32 of, u64 what, s64 error, u64 enter_ns)
{
	record_stack_of(ctx, of, what, error, enter_ns, 0);
}

/* The return address at the first instruction of a function. */
static __always_inline u64 return_address(const struct pt_regs *ctx)
{
#if defined(__TARGET_ARCH_x86) || defined(__x86_64__)
	u64 address = 0;

	bpf_probe_read_user(&address, sizeof(address), (void *)PT_REGS_SP(ctx));
	return address;
#else
	return ctx->regs[30];
#endif
}
