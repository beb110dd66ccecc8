// SPDX-License-Identifier: MIT
/* Runs in which the kernel refuses nothing, or the program copes with what it refuses. */
#include "groups.h"
#include "machine.h"
#include "work.h"

#define BURST         1009u /* prime: no batch size divides it, so one lost record shows */
#define PANVK_BUFFERS 20u

void run_all_well(void)
{
	struct work work;
	uint32_t heap;

	if (work_begin(&work, 2) && !heap_create(&work.gpu, work.vm, 5, 2 * MIB, 64, &heap, NULL)) {
		for (uint32_t job = 0; job < 3; job++)
			for (uint32_t queue = 0; queue < work.queue_count; queue++)
				work_job(&work, queue);
		heap_destroy(&work.gpu, heap);
		vm_unmap(&work.gpu, work.vm, BASE_VA, STREAM_BO_SIZE);
	}
	work_end(&work);
}

void run_burst(void)
{
	struct gpu gpu;
	uint32_t bo;

	if (gpu_open(&gpu))
		return;
	steps_quiet();
	for (uint32_t i = 0; i < BURST; i++)
		if (!bo_create(&gpu, 4 * KIB, 0, 0, &bo))
			bo_close(&gpu, bo);
	steps_loud();
	gpu_close(&gpu);
}

void run_retry_smaller(void)
{
	struct work work;
	uint32_t bo;

	if (!work_begin(&work, 1)) {
		work_end(&work);
		return;
	}
	if (!bo_create(&work.gpu, more_than_memory(), 0, work.vm, &bo)) {
		vm_map(&work.gpu, work.vm, bo, BASE_VA + GIB, more_than_memory());
		bo_close(&work.gpu, bo);
	}
	if (!bo_create(&work.gpu, MIB, 0, work.vm, &bo) &&
	    !vm_map(&work.gpu, work.vm, bo, BASE_VA + GIB, MIB))
		work_job(&work, 0);
	work_end(&work);
}

void run_retry_other_vm(void)
{
	struct work work;
	uint32_t bo, narrow, wide;
	uint64_t range;

	/* A bind that the user range of one VM is too small for, then the same in one with room. */
	if (work_begin(&work, 1) && !vm_create(&work.gpu, 4 * GIB, &narrow, &range) &&
	    !vm_create(&work.gpu, (1ull << work.gpu.va_bits) - 256 * MIB, &wide, NULL) &&
	    !bo_create(&work.gpu, MIB, 0, 0, &bo) && vm_map(&work.gpu, narrow, bo, range, MIB) &&
	    !vm_map(&work.gpu, wide, bo, range, MIB))
		work_job(&work, 0);
	work_end(&work);
}

void run_bo_never_bound(void)
{
	struct work work;
	uint32_t bo;
	void *address;

	/*
	 * panvk (Mesa 26.1, panvk_device_memory.c) reserves a VA after it has made and mapped the
	 * BO. When its own heap of addresses is empty, it closes the BO again and no call has
	 * failed.
	 */
	if (!work_begin(&work, 1)) {
		work_end(&work);
		return;
	}
	for (uint32_t i = 0; i < PANVK_BUFFERS; i++)
		if (bo_create(&work.gpu, MIB, 0, work.vm, &bo) ||
		    bo_mmap(&work.gpu, bo, MIB, &address) ||
		    vm_map(&work.gpu, work.vm, bo, BASE_VA + (i + 1) * 2 * MIB, MIB))
			break;
	work_job(&work, 0);
	if (!bo_create(&work.gpu, MIB, 0, work.vm, &bo) && !bo_mmap(&work.gpu, bo, MIB, &address)) {
		bo_munmap(address, MIB);
		bo_close(&work.gpu, bo);
	}
	work_end(&work);
}

void run_gives_up(void)
{
	struct work work;

	if (work_begin(&work, 1))
		work_job(&work, 0);
	work_end(&work);
}
