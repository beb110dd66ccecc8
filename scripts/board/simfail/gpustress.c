// SPDX-License-Identifier: MIT
/*
 * Work for the scheduler: many groups, many jobs, two queues each, with every counter checked;
 * pauses long enough for the GPU to be suspended; asynchronous binds. Any mismatch is a loud
 * failure.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ioctl.h"
#include "work.h"

#define QUEUES      2u
#define MAX_GROUPS  128u /* MAX_GROUPS_PER_POOL, panthor_sched.c */
#define WAIT_MS     60000u
#define SUSPEND_MS  200u /* above the driver's autosuspend delay of 50 ms (panthor_device.c) */
#define BIND_OPS    64u
#define BIND_VA     0x200000000ull
#define FIRST_ROUND 1u

/* One per group: its own VM where the file has one left (32), else a VM shared with earlier groups.
 */
#define VMS 31u

struct stress {
	struct gpu gpu;
	uint32_t group_count, jobs, cycles, binds;
	uint32_t vm[VMS];
	struct {
		uint32_t vm, group;
		uint64_t va;
		uint64_t *stream;
		uint64_t jobs[QUEUES];
	} groups[MAX_GROUPS];
};

static void fail(const char *what, uint32_t group)
{
	fprintf(stderr, "gpustress: FAILED: %s (group %u)\n", what, group);
	exit(EXIT_FAILURE);
}

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void add_group(struct stress *stress, uint32_t index)
{
	struct group_request request;
	uint32_t *vm = &stress->vm[index % VMS], bo;
	uint64_t va = BASE_VA + index / VMS * 2 * MIB;
	void *address;

	if (index < VMS && vm_create(&stress->gpu, 0, vm, NULL))
		fail("VM_CREATE", index);
	if (bo_create(&stress->gpu, STREAM_BO_SIZE, 0, *vm, &bo) ||
	    bo_mmap(&stress->gpu, bo, STREAM_BO_SIZE, &address) ||
	    vm_map(&stress->gpu, *vm, bo, va, STREAM_BO_SIZE))
		fail("a stream BO", index);
	for (uint32_t queue = 0; queue < QUEUES; queue++)
		stream_write(address, va, queue);
	group_request(&request, &stress->gpu, *vm, QUEUES);
	request.create.priority =
	    index % 4 ? PANTHOR_GROUP_PRIORITY_MEDIUM : PANTHOR_GROUP_PRIORITY_LOW;
	request.queues[1].ringbuf_size = 4 * KIB; /* so small that it wraps around all the time */
	if (group_create(&stress->gpu, &request, &stress->groups[index].group))
		fail("GROUP_CREATE", index);
	stress->groups[index].vm = *vm;
	stress->groups[index].va = va;
	stress->groups[index].stream = address;
}

/* One job on each queue. A syncobj of 0: nobody waits for that one. */
static void submit(struct stress *stress, uint32_t index, const uint32_t syncobjs[QUEUES])
{
	for (uint32_t queue = 0; queue < QUEUES; queue++) {
		if (group_submit(&stress->gpu, stress->groups[index].group, queue,
		                 stress->groups[index].va + queue * STREAM_STRIDE, STREAM_STRIDE,
		                 syncobjs[queue]))
			fail("GROUP_SUBMIT", index);
		stress->groups[index].jobs[queue]++;
	}
}

static void check_counters(struct stress *stress, uint32_t index)
{
	for (uint32_t queue = 0; queue < QUEUES; queue++) {
		uint64_t counter = stream_counter(stress->groups[index].stream, queue);
		uint64_t expected = stress->groups[index].jobs[queue];

		if (counter != expected) {
			fprintf(stderr, "queue %u counted %" PRIu64 ", not %" PRIu64 "\n", queue,
			        counter, expected);
			fail("a counter", index);
		}
	}
}

/* A job on each queue, waited for: everything submitted before it is done then too. */
static void finish(struct stress *stress, uint32_t index)
{
	uint32_t syncobjs[QUEUES];

	for (uint32_t queue = 0; queue < QUEUES; queue++)
		if (syncobj_create(&stress->gpu, &syncobjs[queue]))
			fail("SYNCOBJ_CREATE", index);
	submit(stress, index, syncobjs);
	for (uint32_t queue = 0; queue < QUEUES; queue++) {
		if (syncobj_wait(&stress->gpu, syncobjs[queue], WAIT_MS))
			fail("SYNCOBJ_WAIT", index);
		if (job_result(&stress->gpu, syncobjs[queue]))
			fail("a job", index);
		if (syncobj_destroy(&stress->gpu, syncobjs[queue]))
			fail("SYNCOBJ_DESTROY", index);
	}
	check_counters(stress, index);
}

static void load(struct stress *stress)
{
	static const uint32_t none[QUEUES];
	double start = now_ms();

	for (uint32_t job = FIRST_ROUND; job < stress->jobs; job++)
		for (uint32_t group = 0; group < stress->group_count; group++)
			submit(stress, group, none);
	for (uint32_t group = 0; group < stress->group_count; group++)
		finish(stress, group);
	printf("load: %u groups x %u jobs x %u queues in %.0f ms\n", stress->group_count,
	       stress->jobs, QUEUES, now_ms() - start);
}

static void suspend_and_resume(struct stress *stress)
{
	double longest = 0;

	for (uint32_t cycle = 0; cycle < stress->cycles; cycle++) {
		double start;

		usleep(SUSPEND_MS * 1000);
		start = now_ms();
		finish(stress, cycle % stress->group_count);
		if (now_ms() - start > longest)
			longest = now_ms() - start;
	}
	printf("suspend: %u cycles, longest resume with a job on each queue %.1f ms\n",
	       stress->cycles, longest);
}

/* An asynchronous VM_BIND of many operations, the last of which signals. */
static void bind_async(struct stress *stress, uint32_t bo, bool map)
{
	struct drm_panthor_vm_bind_op ops[BIND_OPS];
	struct drm_panthor_sync_op sync = {
	    .flags = (uint32_t)DRM_PANTHOR_SYNC_OP_SIGNAL | DRM_PANTHOR_SYNC_OP_HANDLE_TYPE_SYNCOBJ,
	};
	uint32_t count = BIND_OPS;

	memset(ops, 0, sizeof(ops));
	if (syncobj_create(&stress->gpu, &sync.handle))
		fail("SYNCOBJ_CREATE", 0);
	for (uint32_t i = 0; i < BIND_OPS; i++) {
		ops[i].flags = (uint32_t)(map ? DRM_PANTHOR_VM_BIND_OP_TYPE_MAP
		                              : DRM_PANTHOR_VM_BIND_OP_TYPE_UNMAP);
		ops[i].bo_handle = map ? bo : 0;
		ops[i].va = BIND_VA + i * 2 * MIB;
		ops[i].size = 64 * KIB;
	}
	ops[BIND_OPS - 1].syncs = (struct drm_panthor_obj_array)DRM_PANTHOR_OBJ_ARRAY(1, &sync);
	if (vm_bind(&stress->gpu, stress->groups[0].vm, DRM_PANTHOR_VM_BIND_ASYNC, ops, &count))
		fail("VM_BIND", 0);
	if (syncobj_wait(&stress->gpu, sync.handle, WAIT_MS) ||
	    job_result(&stress->gpu, sync.handle) || syncobj_destroy(&stress->gpu, sync.handle))
		fail("an asynchronous bind", 0);
}

static void bind_all(struct stress *stress)
{
	uint32_t bo, state;
	double start = now_ms();

	if (bo_create(&stress->gpu, 64 * KIB, 0, 0, &bo))
		fail("BO_CREATE", 0);
	for (uint32_t round = 0; round < stress->binds; round++) {
		bind_async(stress, bo, true);
		finish(stress, 0);
		bind_async(stress, bo, false);
	}
	if (vm_state(&stress->gpu, stress->groups[0].vm, &state) ||
	    state != DRM_PANTHOR_VM_STATE_USABLE)
		fail("the VM's state", 0);
	printf("bind: %u rounds of %u operations in %.0f ms\n", stress->binds, 2 * BIND_OPS,
	       now_ms() - start);
}

static void parse(int argc, char **argv, struct stress *stress)
{
	static const struct option known[] = {
	    {"groups", required_argument, NULL, 'g'}, {"jobs", required_argument, NULL, 'j'},
	    {"cycles", required_argument, NULL, 'c'}, {"binds", required_argument, NULL, 'b'},
	    {"device", required_argument, NULL, 'd'}, {0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		uint32_t number = option == '?' || option == 'd' ? 0 : (uint32_t)atoi(optarg);

		if (option == 'g')
			stress->group_count = number;
		else if (option == 'j')
			stress->jobs = number;
		else if (option == 'c')
			stress->cycles = number;
		else if (option == 'b')
			stress->binds = number;
		else if (option == 'd')
			gpu_device = optarg;
	}
	if (optind != argc || !stress->jobs || !stress->group_count ||
	    stress->group_count > MAX_GROUPS) {
		fprintf(stderr,
		        "usage: gpustress [--groups 1..%u] [--jobs N] [--cycles N]"
		        " [--binds N] [--device PATH]\n",
		        MAX_GROUPS);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	static struct stress stress = {.group_count = 12, .jobs = 50, .cycles = 10, .binds = 20};

	parse(argc, argv, &stress);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!steps_begin(STDERR_FILENO))
		return EXIT_FAILURE;
	steps_quiet();
	if (gpu_open(&stress.gpu)) {
		fprintf(stderr, "gpustress: %s\n", *tally->skip ? tally->skip : "no GPU");
		return *tally->skip ? 77 : EXIT_FAILURE;
	}
	for (uint32_t group = 0; group < stress.group_count; group++)
		add_group(&stress, group);
	load(&stress);
	suspend_and_resume(&stress);
	bind_all(&stress);
	for (uint32_t group = 0; group < stress.group_count; group++)
		check_counters(&stress, group);
	gpu_close(&stress.gpu);
	printf("gpustress: all counters as expected\n");
	return EXIT_SUCCESS;
}
