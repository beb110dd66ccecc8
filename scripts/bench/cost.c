// SPDX-License-Identifier: MIT
/*
 * What scripts/bench/cost times: a tight loop of one call.
 *
 *   cost ioctl FILE COUNT    BO_CREATE's number on a file that need not know it, or on a DRM node
 *                            GET_CAP, which every DRM driver answers at once and which allocates
 * nothing cost dispatch COUNT      vkCmdDispatch of the libvulkan.so.1 that is found
 *
 * Prints nanoseconds of this thread's processor time and of the clock a call: the median of BATCHES
 * batches. (The fastest would be one in which a tracer's buffer was full and records were dropped,
 * which costs less.)
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

#define BATCHES   21
#define DRM_MAJOR 226

typedef void (*dispatch_fn)(void *command_buffer, uint32_t x, uint32_t y, uint32_t z);

struct bo_create {
	uint64_t size;
	uint32_t flags, exclusive_vm_id, handle, pad;
};

struct get_cap {
	uint64_t capability, value;
};

#define BO_CREATE _IOWR('d', 0x45, struct bo_create)
#define GET_CAP   _IOWR('d', 0x0c, struct get_cap)

static double now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

static void ioctls(int fd, int drm, long count)
{
	struct bo_create bo = {.size = 4096};
	struct get_cap cap = {.capability = 5}; /* DRM_CAP_PRIME */

	for (long i = 0; i < count; i++) {
		if (drm)
			ioctl(fd, GET_CAP, &cap);
		else
			ioctl(fd, BO_CREATE, &bo);
	}
}

static void dispatches(dispatch_fn dispatch, long count)
{
	int command_buffer;

	for (long i = 0; i < count; i++)
		dispatch(&command_buffer, i, 2, 3);
}

static int by_size(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
	int is_ioctl = argc == 4 && strcmp(argv[1], "ioctl") == 0;
	dispatch_fn dispatch = NULL;
	struct stat file = {0};
	double wall[BATCHES], cpu[BATCHES];
	long count;
	int fd = -1;

	if (!is_ioctl && !(argc == 3 && strcmp(argv[1], "dispatch") == 0)) {
		fprintf(stderr, "usage: cost ioctl FILE COUNT | cost dispatch COUNT\n");
		return 2;
	}
	count = atol(argv[argc - 1]) / BATCHES;
	if (is_ioctl) {
		fd = open(argv[2], O_RDWR);
		if (fd < 0 || fstat(fd, &file)) {
			perror(argv[2]);
			return 1;
		}
	} else {
		void *library = dlopen("libvulkan.so.1", RTLD_NOW);

		dispatch = library ? (dispatch_fn)dlsym(library, "vkCmdDispatch") : NULL;
		if (!dispatch) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
	}
	for (int batch = 0; batch < BATCHES; batch++) {
		double wall_start = now(CLOCK_MONOTONIC);
		double cpu_start = now(CLOCK_THREAD_CPUTIME_ID);

		if (is_ioctl)
			ioctls(fd, major(file.st_rdev) == DRM_MAJOR, count);
		else
			dispatches(dispatch, count);
		cpu[batch] = (now(CLOCK_THREAD_CPUTIME_ID) - cpu_start) / count;
		wall[batch] = (now(CLOCK_MONOTONIC) - wall_start) / count;
	}
	qsort(wall, BATCHES, sizeof(wall[0]), by_size);
	qsort(cpu, BATCHES, sizeof(cpu[0]), by_size);
	printf("%.0f %.0f\n", cpu[BATCHES / 2], wall[BATCHES / 2]);
	return 0;
}
