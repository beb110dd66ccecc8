// SPDX-License-Identifier: MIT
/* Several threads or processes use the GPU, and one of them meets a failure. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "groups.h"
#include "machine.h"
#include "work.h"

#define CROWD        4
#define UNLUCKY      2
#define ROUNDS       5u
#define STACK_SIZE   (256 * 1024)
#define CAP_ATTEMPTS 33u

/* What each does: jobs and buffers, all of which work. */
static bool work_rounds(struct work *work)
{
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint32_t bo;

		if (!work_job(work, 0) || bo_create(&work->gpu, MIB, 0, work->vm, &bo) ||
		    vm_map(&work->gpu, work->vm, bo, BASE_VA + GIB, MIB) ||
		    vm_unmap(&work->gpu, work->vm, BASE_VA + GIB, MIB) || bo_close(&work->gpu, bo))
			return false;
	}
	return true;
}

static void one_of_the_processes(int index)
{
	struct work work;
	uint32_t vm;

	if (work_begin(&work, 1) && work_rounds(&work) && index == UNLUCKY)
		/* With the one it has: 32 succeed and this is the 33rd. */
		for (uint32_t i = 1; i < CAP_ATTEMPTS; i++)
			vm_create(&work.gpu, 0, &vm, NULL);
	work_end(&work);
}

void run_processes_one_fails(void)
{
	pid_t children[CROWD];

	steps_quiet();
	for (int i = 0; i < CROWD; i++)
		children[i] = child_start(one_of_the_processes, i);
	for (int i = 0; i < CROWD; i++)
		child_finish(children[i]);
	steps_loud();
}

void run_child_fails(void)
{
	struct work work;

	/* The parent is well before, during and after. */
	if (work_begin(&work, 1) && work_job(&work, 0)) {
		child_finish(child_start(one_of_the_processes, UNLUCKY));
		work_job(&work, 0);
	}
	work_end(&work);
}

static void *one_of_the_threads(void *argument)
{
	int index = *(int *)argument;
	struct work work;
	uint32_t bo;

	if (work_begin(&work, 1) && work_rounds(&work) && index == UNLUCKY &&
	    !bo_create(&work.gpu, MIB, 0, work.vm, &bo))
		vm_map(&work.gpu, work.vm, bo, (1ull << work.gpu.va_bits) - MIB, MIB);
	work_end(&work);
	return NULL;
}

void run_threads_one_fails(void)
{
	pthread_t threads[CROWD];
	int indices[CROWD], started = 0, error = 0;
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_SIZE);
	steps_quiet();
	for (; started < CROWD && !error; started += !error) {
		indices[started] = started;
		error = pthread_create(&threads[started], &attributes, one_of_the_threads,
		                       &indices[started]);
	}
	for (int i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	steps_loud();
	expect(!error, "pthread_create: %s", error_name(error));
	pthread_attr_destroy(&attributes);
}
