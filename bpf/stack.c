// SPDX-License-Identifier: GPL-2.0-only
/*
 * The user stack of a failure, as build ids and offsets: that names the code wherever it was
 * loaded, also when the process is gone by the time somebody looks. The kernel follows frame
 * pointers, which arm64's compilers keep; without them (most of x86_64) the first frames are all
 * there is.
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

static __always_inline void record_stack(void *ctx, u32 of, u64 what, s64 error, u64 enter_ns)
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
	bytes = bpf_get_stack(ctx, record->frame, sizeof(record->frame),
	                      BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
	record->frames = bytes > 0 ? bytes / sizeof(struct stack_frame) : 0;
	events.ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}
