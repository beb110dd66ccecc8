/* SPDX-License-Identifier: MIT */
/* What a program that works has: a VM, a mapped command stream, a group, jobs whose effect is
 * checked. */
#ifndef SIMFAIL_WORK_H
#define SIMFAIL_WORK_H

#include "gpu.h"

/* The stream BO: commands at its start, one 64-bit counter per queue from COUNTER_OFFSET. */
#define STREAM_BO_SIZE (64 * KIB)
#define STREAM_STRIDE  64u
#define COUNTER_OFFSET 4096u
#define MAX_QUEUES     2u

struct work {
	struct gpu gpu;
	uint32_t vm;
	uint32_t stream_bo;
	uint64_t *stream;
	uint32_t group;
	uint32_t queue_count;
	uint64_t jobs[MAX_QUEUES]; /* what the counters should say */
};

/* Write the commands that add one to the counter of `queue`; the BO is mapped at `va` on the GPU.
 */
void stream_write(uint64_t *stream, uint64_t va, uint32_t queue);
uint64_t stream_counter(const uint64_t *stream, uint32_t queue);

/* Device, VM and a mapped stream BO, no group. False: a step failed (and was counted). */
bool work_begin_vm(struct work *work);
bool work_begin(struct work *work, uint32_t queue_count);
/* Submit one job, with a syncobj that the caller waits for and destroys. */
int work_submit(struct work *work, uint32_t queue, uint32_t *syncobj);
/* One job from submission to its counter. */
bool work_job(struct work *work, uint32_t queue);
void work_end(struct work *work);

#endif
