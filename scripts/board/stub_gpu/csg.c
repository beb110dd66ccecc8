// SPDX-License-Identifier: GPL-2.0-only
/* Command stream group slots: requests of the driver, events to it, what runs when. */
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/string.h>

#include "stub.h"

static uint idle_hysteresis_us = 800;
module_param(idle_hysteresis_us, uint, 0644);
MODULE_PARM_DESC(idle_hysteresis_us, "microseconds a group is idle before CSG_IDLE is reported");

struct csg_input *csg_in(unsigned int g)
{
	return mcu_shared(FW_CSG_INPUT(g));
}

struct csg_output *csg_out(unsigned int g)
{
	return mcu_shared(FW_CSG_OUTPUT(g));
}

struct cs_input *cs_in(unsigned int g, unsigned int q)
{
	return mcu_shared(FW_CS_INPUT(g, q));
}

struct cs_output *cs_out(unsigned int g, unsigned int q)
{
	return mcu_shared(FW_CS_OUTPUT(g, q));
}

static bool state_runs(u32 state)
{
	return state == CSG_STATE_START || state == CSG_STATE_RESUME;
}

bool csg_running(unsigned int g)
{
	return state_runs(csg_out(g)->ack & CSG_STATE_MASK);
}

bool cs_running(unsigned int g, unsigned int q)
{
	return (cs_out(g, q)->ack & CS_STATE_MASK) == CS_STATE_START;
}

void csg_reset(void)
{
	memset(stub.csg, 0, sizeof(stub.csg));
}

/* An event towards the driver: a bit of ack that differs from req. Pending already: raise again. */
void csg_event(unsigned int g, u32 bit)
{
	struct csg_output *out = csg_out(g);

	if (!((READ_ONCE(csg_in(g)->req) ^ out->ack) & bit))
		WRITE_ONCE(out->ack, out->ack ^ bit);
	irq_raise(IRQ_JOB, JOB_INT_CSG_IF(g));
}

void cs_event(unsigned int g, unsigned int q, u32 bit)
{
	struct cs_output *out = cs_out(g, q);

	if (!((READ_ONCE(cs_in(g, q)->req) ^ out->ack) & bit))
		WRITE_ONCE(out->ack, out->ack ^ bit);
	/* The driver looks at a CS only if its bit of cs_irq_req differs from cs_irq_ack. */
	if (!((READ_ONCE(csg_in(g)->cs_irq_ack) ^ csg_out(g)->cs_irq_req) & BIT(q)))
		WRITE_ONCE(csg_out(g)->cs_irq_req, csg_out(g)->cs_irq_req ^ BIT(q));
	irq_raise(IRQ_JOB, JOB_INT_CSG_IF(g));
}

/* The tiler of stream q wants a chunk. The driver wants frag_end <= vt_end < vt_start. */
void cs_tiler_oom(unsigned int g, unsigned int q)
{
	const struct cs_context *cs = &stub.csg[g].cs[q];
	struct cs_output *out = cs_out(g, q);

	WRITE_ONCE(out->heap_address, cs->oom_heap);
	WRITE_ONCE(out->heap_vt_start, cs->oom_passes);
	WRITE_ONCE(out->heap_vt_end, cs->oom_passes - 1);
	WRITE_ONCE(out->heap_frag_end, 0);
	cs_event(g, q, CS_TILER_OOM);
}

/*
 * A group leaves or enters the slot: events of its streams that the driver has not taken are void.
 * It does not answer a TILER_OOM it refuses, and would take the old one for the next group's.
 */
static void cs_settle_events(unsigned int g)
{
	unsigned int q;

	for (q = 0; q < FW_CS_COUNT; q++) {
		struct cs_output *out = cs_out(g, q);
		u32 req = READ_ONCE(cs_in(g, q)->req);

		WRITE_ONCE(out->ack, (out->ack & ~CS_EVT_MASK) | (req & CS_EVT_MASK));
	}
}

/*
 * status_state must describe the group that is in the slot now. 6.12 reads it at every
 * STATUS_UPDATE and gives up its runtime-PM reference on IDLE; a bit left by the slot's previous
 * group makes it suspend a live job. (7.3 works with the queues' own state.)
 */
static void update_status(unsigned int g)
{
	u32 state = CSG_STATUS_STATE_IS_IDLE;
	unsigned int q;

	for (q = 0; q < FW_CS_COUNT; q++) {
		WRITE_ONCE(cs_out(g, q)->status_blocked_reason, 0);
		WRITE_ONCE(cs_out(g, q)->status_scoreboards, 0);
		if (ring_has_work(g, q))
			state = 0;
	}
	WRITE_ONCE(csg_out(g)->status_state, state);
}

/* A suspended group's state lies in a buffer of the driver's, in the MCU's address space. */
static void move_contexts(unsigned int g, bool save)
{
	u64 buffer = csg_in(g)->suspend_buf;
	unsigned int q;

	for (q = 0; buffer && q < FW_CS_COUNT; q++) {
		struct cs_context *cs = &stub.csg[g].cs[q];
		void *saved = mmu_translate(0, buffer + q * CS_SAVED_SIZE);

		if (saved && save)
			memcpy(saved, cs, sizeof(*cs));
		else if (saved)
			memcpy(cs, saved, sizeof(*cs));
	}
}

static void enter_state(unsigned int g, u32 state)
{
	u64 *const entered[CSG_STATES] = {
	    [CSG_STATE_TERMINATE] = &stub.count.csg_terminate,
	    [CSG_STATE_START] = &stub.count.csg_start,
	    [CSG_STATE_SUSPEND] = &stub.count.csg_suspend,
	    [CSG_STATE_RESUME] = &stub.count.csg_resume,
	};
	struct csg_slot *slot = &stub.csg[g];
	unsigned int q;

	if (state >= CSG_STATES)
		return;
	(*entered[state])++;
	slot->idle_at = 0;
	/* A group that comes in with nothing to do is reported idle, too. */
	slot->was_busy = state_runs(state);
	memset(slot->ring, 0, sizeof(slot->ring));
	cs_settle_events(g);
	switch (state) {
	case CSG_STATE_START:
		memset(slot->cs, 0, sizeof(slot->cs));
		power_cores(true);
		break;
	case CSG_STATE_RESUME:
		move_contexts(g, false);
		for (q = 0; q < FW_CS_COUNT; q++)
			if (slot->cs[q].oom_pending)
				cs_tiler_oom(g, q);
		power_cores(true);
		break;
	case CSG_STATE_SUSPEND:
		move_contexts(g, true);
		break;
	}
}

/* CS requests take effect when the group starts or resumes, and at the group's doorbell. */
static void cs_requests(unsigned int g)
{
	bool runs = csg_running(g);
	unsigned int q;

	for (q = 0; q < FW_CS_COUNT; q++) {
		struct cs_output *out = cs_out(g, q);
		u32 ack = out->ack;

		if (runs)
			ack = (ack & ~CS_REQ_MASK) | (READ_ONCE(cs_in(g, q)->req) & CS_REQ_MASK);
		else
			ack &= ~CS_STATE_MASK;
		WRITE_ONCE(out->ack, ack);
		ring_bind(g, q);
	}
}

/* The driver answers TILER_OOM by making the bits equal again; heap_start is the chunk, 0: none. */
static void oom_answers(unsigned int g)
{
	unsigned int q;

	for (q = 0; q < FW_CS_COUNT; q++) {
		struct cs_context *cs = &stub.csg[g].cs[q];

		if (!cs->oom_pending ||
		    ((READ_ONCE(cs_in(g, q)->req) ^ cs_out(g, q)->ack) & CS_TILER_OOM))
			continue;
		cs->oom_pending = 0;
		stub.count.tiler_oom_replies++;
		stub.count.tiler_oom_last_chunk = cs_in(g, q)->heap_start;
	}
}

/* The global doorbell rang for slot g: serve everything the driver asks of it. */
void csg_request(unsigned int g)
{
	struct csg_input *in = csg_in(g);
	struct csg_output *out = csg_out(g);
	u32 req = READ_ONCE(in->req);
	u32 asked = (req ^ out->ack) & CSG_REQ_MASK;
	u32 doorbell_req = READ_ONCE(in->doorbell_req); /* once, as in mcu_global_doorbell() */
	bool rung = doorbell_req != out->doorbell_ack;

	if (asked & CSG_STATE_MASK)
		enter_state(g, req & CSG_STATE_MASK);
	if (asked)
		WRITE_ONCE(out->ack, (out->ack & ~CSG_REQ_MASK) | (req & CSG_REQ_MASK));
	if (asked || rung)
		cs_requests(g);
	if (rung) {
		WRITE_ONCE(out->doorbell_ack, doorbell_req);
		oom_answers(g);
	}
	if (asked) {
		update_status(g);
		irq_raise(IRQ_JOB, JOB_INT_CSG_IF(g));
	}
	csg_run(g);
}

/* Run what the slot's rings hold; then say what the group is up to. */
void csg_run(unsigned int g)
{
	struct csg_slot *slot = &stub.csg[g];
	bool sync_update = false;
	unsigned int q;

	if (!csg_running(g))
		return;
	for (q = 0; q < FW_CS_COUNT; q++) {
		slot->was_busy |= ring_has_work(g, q);
		sync_update |= ring_run(g, q);
	}
	if (sync_update) {
		stub.count.csg_sync_events++;
		csg_event(g, CSG_SYNC_UPDATE);
	}
	update_status(g);
	if (!(csg_out(g)->status_state & CSG_STATUS_STATE_IS_IDLE)) {
		slot->idle_at = 0;
	} else if (slot->was_busy) {
		/* Once each time it falls idle: the driver answers each report with requests. */
		slot->was_busy = false;
		slot->idle_at = ktime_add_us(stub.now, idle_hysteresis_us);
	}
}

void csg_run_all(void)
{
	unsigned int g;

	for (g = 0; g < FW_CSG_COUNT; g++)
		csg_run(g);
}

/* Returns true while an idle report is due. */
bool csg_timers(void)
{
	bool due = false;
	unsigned int g;

	for (g = 0; g < FW_CSG_COUNT; g++) {
		struct csg_slot *slot = &stub.csg[g];

		if (!slot->idle_at)
			continue;
		due = true;
		if (ktime_before(stub.now, slot->idle_at))
			continue;
		slot->idle_at = 0;
		if (csg_running(g)) {
			stub.count.csg_idle_events++;
			csg_event(g, CSG_IDLE);
		}
	}
	return due;
}
