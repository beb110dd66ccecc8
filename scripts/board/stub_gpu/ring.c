// SPDX-License-Identifier: GPL-2.0-only
/* A queue's ring buffer: the jobs panthor inserts, consumed in order. */
#include "stub.h"

/*
 * Instructions a job may execute. Command buffers of real programs stay far below it (a thousand or
 * so); a stream whose loop condition depends on a shader that never ran would not end by itself.
 */
#define JOB_BUDGET 65536

/*
 * Follow the driver's request to start or stop queue q: find its ring. insert and extract are pages
 * of the MCU's address space that live as long as the group, so they are translated once (walks are
 * most of what a poll costs); the ring itself is in the group's address space.
 */
void ring_bind(unsigned int g, unsigned int q)
{
	struct ring *ring = &stub.csg[g].ring[q];
	struct cs_input *in = cs_in(g, q);

	if (!csg_running(g) || !cs_running(g, q) || !in->ringbuf_size) {
		ring->in = NULL;
		return;
	}
	if (ring->in)
		return;
	ring->base = in->ringbuf_base;
	ring->size = in->ringbuf_size;
	ring->out = mmu_translate(0, in->ringbuf_output);
	ring->in = ring->out ? mmu_translate(0, in->ringbuf_input) : NULL;
}

bool ring_has_work(unsigned int g, unsigned int q)
{
	const struct ring *ring = &stub.csg[g].ring[q];

	return ring->in && READ_ONCE(ring->in->insert) != READ_ONCE(ring->out->extract);
}

/* True if the CS may go on; a tiler waits for its chunk as it does on hardware. */
static bool may_run(const struct cs_context *cs)
{
	return !stub.hold && !cs->hung && !cs->fatal && !cs->oom_pending && mcu_alive();
}

/*
 * Execute queue q of slot g up to what the driver has inserted. Returns true if a sync object that
 * the driver watches was written.
 *
 * panthor's jobs are a fixed sequence around one CALL of the program's stream (panthor_sched.c,
 * queue_run_job), so a CALL met in the ring itself is where a job begins.
 */
bool ring_run(unsigned int g, unsigned int q)
{
	struct cs_context *cs = &stub.csg[g].cs[q];
	struct stream stream = {
	    .cs = cs,
	    .as = CSG_CONFIG_AS(READ_ONCE(csg_in(g)->config)),
	    .page_va = U64_MAX,
	};
	const struct ring *ring = &stub.csg[g].ring[q];
	u64 insert, extract;

	if (!ring_has_work(g, q) || !may_run(cs))
		return false;
	insert = READ_ONCE(ring->in->insert);
	extract = READ_ONCE(ring->out->extract);
	/* What was inserted before insert moved. */
	smp_rmb();
	while (extract < insert) {
		u64 instruction;

		if (!stream_fetch(&stream, ring->base + (extract & (ring->size - 1)), &instruction))
			break;
		if (stream_is_call(instruction)) {
			if (!cs->job_begun) {
				cs->job_begun = 1;
				stub.count.jobs++;
				inject_job_begins(g, q);
			}
			if (!may_run(cs))
				break;
			cs->job_begun = 0;
			stream.budget = JOB_BUDGET;
			stream_call(&stream, instruction);
		} else {
			stream_step(&stream, instruction);
		}
		extract += sizeof(instruction);
	}
	/* Sync objects first: the driver takes a job for done when extract has passed it. */
	smp_wmb();
	WRITE_ONCE(ring->out->extract, extract);
	WRITE_ONCE(ring->out->active, extract != insert);
	return stream.sync_update;
}
