// SPDX-License-Identifier: MIT
/* Fixed limits of the driver. Each scenario goes up to the limit with calls that succeed, then past
 * it. */
#include <errno.h>

#include "groups.h"
#include "stub.h"
#include "work.h"

#define VMS_PER_FILE    32u
#define HEAPS_PER_VM    128u
#define GROUPS_PER_FILE 128u
/* Long enough for the scheduler to have put the group in a slot. */
#define JOB_STARTED_MS 100u
#define CHUNK_MIN      (128 * KIB)
#define CHUNK_MAX      (8 * MIB)
/* panthor keeps at least this much of a VM for itself (MIN_KERNEL_VA_SIZE, panthor_mmu.c). */
#define KERNEL_VA_MIN (256 * MIB)

void run_vm_33rd(void)
{
	struct gpu gpu;
	uint32_t vm;

	if (gpu_open(&gpu))
		return;
	steps_quiet();
	for (uint32_t i = 0; i < VMS_PER_FILE; i++)
		vm_create(&gpu, 0, &vm, NULL);
	steps_loud();
	vm_create(&gpu, 0, &vm, NULL);
	gpu_close(&gpu);
}

void run_vm_range(void)
{
	struct gpu gpu;
	uint32_t vm;

	if (gpu_open(&gpu))
		return;
	vm_create(&gpu, (1ull << gpu.va_bits) - KERNEL_VA_MIN, &vm, NULL);
	vm_create(&gpu, (1ull << gpu.va_bits) - KERNEL_VA_MIN + 1, &vm, NULL);
	gpu_close(&gpu);
}

void run_bind_past_range(void)
{
	struct gpu gpu;
	uint32_t vm, bo;
	uint64_t range;

	if (gpu_open(&gpu))
		return;
	/* A user range of 4 GiB, like older panvk's. The kernel makes it larger and says so. */
	if (!vm_create(&gpu, 4 * GIB, &vm, &range) && !bo_create(&gpu, 64 * KIB, 0, vm, &bo)) {
		vm_map(&gpu, vm, bo, range - 64 * KIB, 64 * KIB);
		vm_map(&gpu, vm, bo, range - 32 * KIB, 64 * KIB);
	}
	gpu_close(&gpu);
}

void run_heap_129th(void)
{
	struct gpu gpu;
	uint32_t vm, heap;

	if (gpu_open(&gpu))
		return;
	if (!vm_create(&gpu, 0, &vm, NULL)) {
		steps_quiet();
		for (uint32_t i = 0; i < HEAPS_PER_VM; i++)
			heap_create(&gpu, vm, 1, CHUNK_MIN, 1, &heap, NULL);
		steps_loud();
		heap_create(&gpu, vm, 1, CHUNK_MIN, 1, &heap, NULL);
	}
	gpu_close(&gpu);
}

void run_group_129th(void)
{
	struct group_request request;
	struct gpu gpu;
	uint32_t vm, group;

	if (gpu_open(&gpu))
		return;
	if (!vm_create(&gpu, 0, &vm, NULL)) {
		group_request(&request, &gpu, vm, 1);
		request.queues[0].ringbuf_size = 4 * KIB;
		steps_quiet();
		for (uint32_t i = 0; i < GROUPS_PER_FILE; i++)
			group_create(&gpu, &request, &group);
		steps_loud();
		group_create(&gpu, &request, &group);
	}
	gpu_close(&gpu);
}

void run_heap_chunk_size(void)
{
	struct gpu gpu;
	uint32_t vm, heap;

	if (gpu_open(&gpu))
		return;
	if (!vm_create(&gpu, 0, &vm, NULL)) {
		heap_create(&gpu, vm, 1, CHUNK_MAX, 1, &heap, NULL);
		heap_create(&gpu, vm, 1, 2 * CHUNK_MAX, 1, &heap, NULL);
	}
	gpu_close(&gpu);
}

/*
 * The firmware asks for chunks while a job is held in the ring, until the driver refuses one. No
 * call of the program fails, and the kernel logs nothing: only the answer to the firmware tells.
 */
static void grow_heap(struct work *work, uint32_t max_chunks, uint32_t grows, uint32_t passes)
{
	const uint32_t initial = 2;
	uint32_t heap, syncobj;
	uint64_t context_va;

	if (heap_create(&work->gpu, work->vm, initial, 2 * MIB, max_chunks, &heap, &context_va) ||
	    !stub_inject("hold") || work_submit(work, 0, &syncobj))
		return;
	sleep_ms(JOB_STARTED_MS);
	for (uint32_t chunks = initial; chunks < initial + grows; chunks++) {
		bool granted;

		if (!stub_tiler_oom(context_va, passes, &granted))
			return;
		step(CALL_HEAP_GROW, granted ? 0 : -ENOMEM, "chunks=%u max_chunks=%u passes=%u",
		     chunks, max_chunks, passes);
	}
	stub_inject("release");
	syncobj_wait(&work->gpu, syncobj, 10000);
	job_result(&work->gpu, syncobj);
	syncobj_destroy(&work->gpu, syncobj);
	heap_destroy(&work->gpu, heap);
}

void run_heap_max_chunks(void)
{
	struct work work;

	if (work_begin(&work, 1) && stub_begin())
		grow_heap(&work, 4, 3, 1);
	work_end(&work);
}

void run_heap_in_flight(void)
{
	struct work work;

	if (work_begin(&work, 1) && stub_begin())
		grow_heap(&work, 8, 1, HEAP_TARGET_IN_FLIGHT + 1);
	work_end(&work);
}

void run_heap_grows(void)
{
	struct work work;

	if (work_begin(&work, 1) && stub_begin())
		grow_heap(&work, 8, 3, 1);
	work_end(&work);
}

void run_kernel_va(void)
{
	struct gpu gpu;
	uint32_t vm, heap;
	const uint32_t fit = (uint32_t)(KERNEL_VA_MIN / CHUNK_MAX);

	if (gpu_open(&gpu))
		return;
	/* All but 256 MiB of the VA space to the program: the kernel's part holds 31 chunks of 8
	 * MiB. */
	if (!vm_create(&gpu, (1ull << gpu.va_bits) - KERNEL_VA_MIN, &vm, NULL))
		heap_create(&gpu, vm, fit + 1, CHUNK_MAX, fit + 1, &heap, NULL);
	gpu_close(&gpu);
}
