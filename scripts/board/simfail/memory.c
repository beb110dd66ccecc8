// SPDX-License-Identifier: MIT
/* Memory exhaustion: of the machine, and of a memory cgroup. */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "groups.h"
#include "machine.h"
#include "work.h"

#define CGROUP_LIMIT (64 * MIB)
#define PAGE         4096u

void run_bo_larger_than_memory(void)
{
	uint64_t size = more_than_memory();
	struct gpu gpu;
	uint32_t vm, bo;

	if (gpu_open(&gpu))
		return;
	if (!vm_create(&gpu, 0, &vm, NULL) && !bo_create(&gpu, size, 0, vm, &bo)) {
		note("pages are not taken at creation here");
		vm_map(&gpu, vm, bo, BASE_VA, size);
		/* What was taken before it failed is held until this. */
		bo_close(&gpu, bo);
	}
	gpu_close(&gpu);
}

/*
 * panthor asks for pages with __GFP_RETRY_MAYFAIL (panthor_gem.c 7.3, drm_gem_shmem_helper.c 6.12),
 * and a charge with that flag fails instead of waking the OOM killer (try_charge_memcg,
 * mm/memcontrol.c). A page fault of ours has no such flag, and finds the cgroup still full until
 * the BO is closed. So between the failure and GEM_CLOSE the child touches no new memory: its steps
 * are held back, since a write to a pipe takes pages too.
 */
static void fill_cgroup_by_bind(int index)
{
	struct gpu gpu;
	uint32_t vm, bo;

	(void)index;
	if (!cgroup_enter() || gpu_open(&gpu))
		return;
	if (!vm_create(&gpu, 0, &vm, NULL)) {
		steps_hold();
		if (!bo_create(&gpu, 2 * CGROUP_LIMIT, 0, vm, &bo)) {
			vm_map(&gpu, vm, bo, BASE_VA, 2 * CGROUP_LIMIT);
			bo_close(&gpu, bo);
		}
		steps_release();
	}
	gpu_close(&gpu);
}

static void fill_cgroup_by_heap(int index)
{
	struct gpu gpu;
	uint32_t vm, heap;
	const uint32_t chunks = 2 * CGROUP_LIMIT / (2 * MIB);

	(void)index;
	if (!cgroup_enter() || gpu_open(&gpu))
		return;
	if (!vm_create(&gpu, 0, &vm, NULL)) {
		steps_hold();
		heap_create(&gpu, vm, chunks, 2 * MIB, chunks, &heap, NULL);
		steps_release();
	}
	gpu_close(&gpu);
}

static void expect_limit_without_kill(void)
{
	unsigned long long max = cgroup_event("max"), kills = cgroup_event("oom_kill");

	note("memory.events: max %llu, oom_kill %llu", max, kills);
	expect(max > 0, "the cgroup's limit was never hit");
	expect(kills == 0, "the cgroup's OOM killer struck");
}

void run_cgroup_bind(void)
{
	if (cgroup_create(CGROUP_LIMIT) && child_finish(child_start(fill_cgroup_by_bind, 0)))
		expect_limit_without_kill();
}

void run_cgroup_heap(void)
{
	if (cgroup_create(CGROUP_LIMIT) && child_finish(child_start(fill_cgroup_by_heap, 0)))
		expect_limit_without_kill();
}

static void outgrow_cgroup(int index)
{
	struct work work;
	char *memory;

	(void)index;
	if (!cgroup_enter() || !work_begin(&work, 1) || !work_job(&work, 0))
		return;
	memory = mmap(NULL, 2 * CGROUP_LIMIT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	              -1, 0);
	if (!expect(memory != MAP_FAILED, "mmap: %s", error_name(errno)))
		return;
	note("touching %llu MiB", 2 * CGROUP_LIMIT / MIB);
	for (uint64_t at = 0; at < 2 * CGROUP_LIMIT; at += PAGE)
		((volatile char *)memory)[at] = 1;
	expect(false, "the cgroup's limit did not hold");
}

void run_cgroup_oom_kill(void)
{
	pid_t child;
	int status;

	if (!cgroup_create(CGROUP_LIMIT))
		return;
	child = child_start(outgrow_cgroup, 0);
	if (child < 0)
		return;
	status = child_wait(child);
	if (expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
	           "the child was not killed (wait status 0x%x)", status) &&
	    expect(cgroup_event("oom_kill") == 1, "memory.events counts %llu OOM kills",
	           cgroup_event("oom_kill")))
		step(CALL_OOM_KILL, -ENOMEM, "pid=%d", child);
}
