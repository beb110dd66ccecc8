// SPDX-License-Identifier: MIT
#include <string.h>

#include "work.h"

/*
 * Command stream instructions of the v10 CSF (Mesa src/panfrost/genxml/v10.xml): opcode in bits
 * 56-63. MOVE: 48-bit immediate, destination register in 48-55. SYNC_ADD64: address register in
 * 40-47, value register in 32-39, bit 0: the error of the queue is propagated.
 */
#define CS_MOVE(reg, value) ((1ull << 56) | ((uint64_t)(reg) << 48) | (value))
#define CS_SYNC_ADD64(addr, val)                                                                   \
	((51ull << 56) | ((uint64_t)(addr) << 40) | ((uint64_t)(val) << 32) | 1)

#define JOB_WAIT_MS 10000u

void stream_write(uint64_t *stream, uint64_t va, uint32_t queue)
{
	uint64_t *commands = stream + queue * STREAM_STRIDE / sizeof(*stream);

	memset(commands, 0, STREAM_STRIDE);
	commands[0] = CS_MOVE(0, va + COUNTER_OFFSET + queue * sizeof(uint64_t));
	commands[1] = CS_MOVE(2, 1);
	commands[2] = CS_SYNC_ADD64(0, 2);
}

uint64_t stream_counter(const uint64_t *stream, uint32_t queue)
{
	const volatile uint64_t *counter = stream + COUNTER_OFFSET / sizeof(*stream) + queue;

	return *counter;
}

bool work_begin_vm(struct work *work)
{
	void *address;

	memset(work, 0, sizeof(*work));
	work->gpu.fd = -1;
	if (gpu_open(&work->gpu) || vm_create(&work->gpu, 0, &work->vm, NULL) ||
	    bo_create(&work->gpu, STREAM_BO_SIZE, 0, work->vm, &work->stream_bo) ||
	    bo_mmap(&work->gpu, work->stream_bo, STREAM_BO_SIZE, &address))
		return false;
	work->stream = address;
	bo_label(&work->gpu, work->stream_bo, "simfail command stream");
	for (uint32_t queue = 0; queue < MAX_QUEUES; queue++)
		stream_write(work->stream, BASE_VA, queue);
	return !vm_map(&work->gpu, work->vm, work->stream_bo, BASE_VA, STREAM_BO_SIZE);
}

bool work_begin(struct work *work, uint32_t queue_count)
{
	struct group_request request;

	if (!work_begin_vm(work))
		return false;
	work->queue_count = queue_count;
	return !group_create(&work->gpu, group_request(&request, &work->gpu, work->vm, queue_count),
	                     &work->group);
}

int work_submit(struct work *work, uint32_t queue, uint32_t *syncobj)
{
	int result = syncobj_create(&work->gpu, syncobj);

	if (result)
		return result;
	return group_submit(&work->gpu, work->group, queue, BASE_VA + queue * STREAM_STRIDE,
	                    STREAM_STRIDE, *syncobj);
}

bool work_job(struct work *work, uint32_t queue)
{
	uint32_t syncobj;
	uint64_t counter;
	bool done;

	if (work_submit(work, queue, &syncobj))
		return false;
	done = !syncobj_wait(&work->gpu, syncobj, JOB_WAIT_MS) && !job_result(&work->gpu, syncobj);
	syncobj_destroy(&work->gpu, syncobj);
	if (!done)
		return false;
	work->jobs[queue]++;
	counter = stream_counter(work->stream, queue);
	return expect(counter == work->jobs[queue], "the job's counter is %llu, not %llu",
	              (unsigned long long)counter, (unsigned long long)work->jobs[queue]);
}

void work_end(struct work *work)
{
	if (work->group)
		group_destroy(&work->gpu, work->group);
	if (work->stream)
		bo_munmap(work->stream, STREAM_BO_SIZE);
	if (work->stream_bo)
		bo_close(&work->gpu, work->stream_bo);
	if (work->vm)
		vm_destroy(&work->gpu, work->vm);
	gpu_close(&work->gpu);
}
