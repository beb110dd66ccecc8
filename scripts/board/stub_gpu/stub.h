/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A Mali CSF GPU made of a page range, a timer and three interrupt lines.
 *
 * The register file is reserved memory that panthor maps as its device. A timer looks at it every
 * so often and does what the hardware and its firmware would: that is main.c. Everything below runs
 * from that timer or from a debugfs write, always under stub.lock.
 */
#ifndef STUB_GPU_H
#define STUB_GPU_H

#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "fw_layout.h"
#include "iface.h"
#include "regs.h"

enum irq_line { IRQ_JOB, IRQ_MMU, IRQ_GPU, IRQ_LINES };

/* Registers kept for a stream: as many as architecture 12 and later have. 10 and 11 have 96. */
#define CS_REGS 128

/*
 * What a command stream keeps while its group is suspended. Real firmware saves it in the group's
 * suspend buffer and so do we: a group may come back in another slot, and panvk sets registers once
 * (its subqueue context) and relies on them in every later job.
 */
struct cs_context {
	u32 regs[CS_REGS];
	u64 heap;     /* last HEAP_SET: the tiler heap context's GPU address */
	u64 oom_heap; /* what TILER_OOM reports: the heap, and render passes in flight */
	u32 oom_passes;
	u32 oom_pending; /* waiting for the driver's answer to TILER_OOM */
	u32 faulted;     /* error state: reported to sync objects until an ERROR_BARRIER */
	u32 fatal;       /* stopped for good by cs-fatal */
	u32 hung;        /* stopped for good by hang */
	u32 job_begun;   /* the job at the head of the ring has been counted already */
};

/* A stream's part of the suspend buffer: whole ones to a page, for pages are translated singly. */
#define CS_SAVED_SIZE (FW_SUSPEND_SIZE / FW_CS_COUNT)
static_assert(sizeof(struct cs_context) <= CS_SAVED_SIZE);
static_assert(SZ_4K % CS_SAVED_SIZE == 0);

struct ring {
	u64 base;
	u32 size;
	struct ringbuf_input *in; /* NULL: not started */
	struct ringbuf_output *out;
};

struct csg_slot {
	struct cs_context cs[FW_CS_COUNT];
	struct ring ring[FW_CS_COUNT];
	bool was_busy;   /* since the last CSG_IDLE report */
	ktime_t idle_at; /* when to report CSG_IDLE; 0: not due */
};

/* One line each in debugfs "counters"; keep in the order a reader wants */
/* clang-format off */
#define STUB_COUNTERS(X) \
	X(polls) \
	X(irqs_job) \
	X(irqs_mmu) \
	X(irqs_gpu) \
	X(resets) \
	X(cache_flushes) \
	X(as_commands) \
	X(boots) \
	X(boot_failures) \
	X(halts) \
	X(doorbells) \
	X(csg_terminate) \
	X(csg_start) \
	X(csg_suspend) \
	X(csg_resume) \
	X(csg_idle_events) \
	X(csg_sync_events) \
	X(jobs) \
	X(instructions) \
	X(runaway_streams) \
	X(sync_writes) \
	X(heap_sets) \
	X(bad_walks) \
	X(injections) \
	X(tiler_oom_events) \
	X(tiler_oom_replies) \
	X(tiler_oom_last_chunk)
/* clang-format on */

struct counters {
#define X(name) u64 name;
	STUB_COUNTERS(X)
#undef X
};

struct stub {
	raw_spinlock_t lock;
	struct hrtimer timer;
	bool stopping;
	ktime_t now; /* of this poll */
	ktime_t last_activity;

	void *regs;
	size_t regs_size;

	int virq[IRQ_LINES];
	u32 irq_raw[IRQ_LINES];
	u32 irq_mask[IRQ_LINES];   /* as snapshotted by this poll */
	u32 irq_wanted[IRQ_LINES]; /* last non-zero mask: what the handler looks at while it masks
	                            */
	ktime_t irq_raised;        /* last time a line went up */

	u32 mcu_control;
	bool mcu_on;
	bool mcu_dead;            /* injected: the firmware answers nothing */
	bool mcu_dead_until_boot; /* ... and comes back when the driver boots it again */
	void *shared[FW_SHARED_SIZE / SZ_4K]; /* the shared section's pages */

	struct csg_slot csg[FW_CSG_COUNT];
	bool hold; /* injected: leave jobs in their rings */

	struct counters count;
};

extern struct stub stub;

/* Register file. Plain memory: one READ_ONCE or WRITE_ONCE is one register access. */
static inline u32 reg_read(u32 offset)
{
	return READ_ONCE(*(u32 *)(stub.regs + offset));
}

static inline void reg_write(u32 offset, u32 value)
{
	WRITE_ONCE(*(u32 *)(stub.regs + offset), value);
}

static inline u64 reg_read64(u32 offset)
{
	return reg_read(offset) | (u64)reg_read(offset + 4) << 32;
}

static inline void reg_write64(u32 offset, u64 value)
{
	WRITE_ONCE(*(u64 *)(stub.regs + offset), value);
}

/* Take a write-only register's value, leaving 0: the driver's next write is then seen as new. */
static inline u32 reg_take(u32 offset)
{
	return reg_read(offset) ? xchg((u32 *)(stub.regs + offset), 0) : 0;
}

/* power.c: reset, cache flush, power domains */
void power_init(void);
bool power_command(u32 cmd);
bool power_domains(void);
void power_cores(bool on);

/* mmu.c: address spaces */
bool mmu_commands(void);
void mmu_reset(void);
void *mmu_translate(unsigned int as, u64 va);
void mmu_fault(unsigned int as, u64 address, u32 status);

/* irq.c */
void irq_snapshot_masks(void);
bool irq_take_clears(void);
void irq_raise(enum irq_line line, u32 bits);
void irq_reset(void);
bool irq_update(void);
bool irq_handler_busy(void);

/* mcu.c: the firmware's life and its global interface */
bool mcu_control(u32 control);
void mcu_reset(void);
void mcu_global_doorbell(void);
void *mcu_shared(u32 offset);
static inline bool mcu_alive(void)
{
	return stub.mcu_on && !stub.mcu_dead;
}

/* csg.c: command stream group slots */
struct csg_input *csg_in(unsigned int g);
struct csg_output *csg_out(unsigned int g);
struct cs_input *cs_in(unsigned int g, unsigned int q);
struct cs_output *cs_out(unsigned int g, unsigned int q);
bool csg_running(unsigned int g);
bool cs_running(unsigned int g, unsigned int q);
void csg_reset(void);
void csg_request(unsigned int g);
void csg_run(unsigned int g);
void csg_run_all(void);
bool csg_timers(void);
void csg_event(unsigned int g, u32 bit);
void cs_event(unsigned int g, unsigned int q, u32 bit);
void cs_tiler_oom(unsigned int g, unsigned int q);

/* ring.c: one ring buffer; exec.c: one instruction */
void ring_bind(unsigned int g, unsigned int q);
bool ring_has_work(unsigned int g, unsigned int q);
bool ring_run(unsigned int g, unsigned int q);

struct stream {
	struct cs_context *cs;
	unsigned int as;
	u32 budget;
	bool sync_update; /* a sync object of system scope was written */
	/* one page's translation, so that a stream costs a walk a page, not an instruction */
	u64 page_va;
	void *page;
};
bool stream_fetch(struct stream *stream, u64 va, u64 *instruction);
void stream_step(struct stream *stream, u64 instruction);
bool stream_is_call(u64 instruction);
void stream_call(struct stream *stream, u64 instruction);

/* inject.c, counters.c: debugfs */
struct dentry;
void inject_init(struct dentry *dir);
void inject_job_begins(unsigned int g, unsigned int q);

void counters_init(struct dentry *dir);

#endif
