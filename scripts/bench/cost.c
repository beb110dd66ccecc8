// SPDX-License-Identifier: MIT
/*
 * What scripts/bench/cost times: a tight loop of one call.
 *
 *   cost ioctl FILE COUNT     BO_CREATE's number on a file that need not know it; on a DRM node
 *                             GET_CAP, which every DRM driver answers at once and which allocates
 *                             nothing
 *   cost dispatch COUNT       vkCmdDispatch of the libvulkan.so.1 that is found
 *
 * Prints nanoseconds a call: of this thread's processor time and of the clock, the median of
 * BATCHES batches (the fastest would be one in which a tracer's buffer was full and records were
 * dropped, which costs less); and what the kernel says that the BPF programs of whoever traces this
 * ran for, over one more batch, its own clock reading included. They are those that ran as often as
 * the call was made: other programs of the machine do not get into it. Needs root for the last.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define BATCHES   21
#define DRM_MAJOR 226
#define PROGRAMS  512

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

struct program {
	uint32_t id;
	uint64_t ns, runs;
};

/* The program behind an open file, as /proc tells it; false where it is none. */
static int read_program(const char *path, struct program *program)
{
	FILE *file = fopen(path, "r");
	char line[256];
	int found = 0;

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		unsigned long long value;

		if (sscanf(line, "prog_id: %llu", &value) == 1) {
			program->id = value;
			found = 1;
		} else if (sscanf(line, "run_time_ns: %llu", &value) == 1) {
			program->ns = value;
		} else if (sscanf(line, "run_cnt: %llu", &value) == 1) {
			program->runs = value;
		}
	}
	fclose(file);
	return found;
}

/* Every BPF program that some process holds open, once; how many. */
static int read_programs(struct program *programs)
{
	DIR *processes = opendir("/proc");
	struct dirent *process, *file;
	char path[600];
	int count = 0;

	while (processes && (process = readdir(processes))) {
		DIR *files;

		if (process->d_name[0] < '1' || process->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/fdinfo", process->d_name);
		files = opendir(path);
		while (files && (file = readdir(files)) && count < PROGRAMS) {
			struct program *program = &programs[count];
			int known = 0;

			snprintf(path, sizeof(path), "/proc/%.20s/fdinfo/%.20s", process->d_name,
			         file->d_name);
			if (!read_program(path, program))
				continue;
			for (int i = 0; i < count; i++)
				known |= programs[i].id == program->id;
			count += !known;
		}
		if (files)
			closedir(files);
	}
	if (processes)
		closedir(processes);
	return count;
}

/* Have the kernel time its BPF programs while the descriptor is open; negative where it will not.
 */
static int enable_stats(void)
{
	union bpf_attr attributes = {.enable_stats.type = BPF_STATS_RUN_TIME};

	return syscall(SYS_bpf, BPF_ENABLE_STATS, &attributes, sizeof(attributes));
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
	static struct program before[PROGRAMS], after[PROGRAMS];
	double wall[BATCHES], cpu[BATCHES], bpf = 0;
	int programs, stats;
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
	stats = enable_stats();
	programs = read_programs(before);
	if (is_ioctl)
		ioctls(fd, major(file.st_rdev) == DRM_MAJOR, count);
	else
		dispatches(dispatch, count);
	for (int i = read_programs(after) - 1; i >= 0; i--) {
		for (int j = 0; j < programs; j++) {
			if (before[j].id == after[i].id &&
			    after[i].runs - before[j].runs >= (uint64_t)count)
				bpf += (double)(after[i].ns - before[j].ns) /
				       (after[i].runs - before[j].runs);
		}
	}
	close(stats);
	qsort(wall, BATCHES, sizeof(wall[0]), by_size);
	qsort(cpu, BATCHES, sizeof(cpu[0]), by_size);
	printf("%.0f %.0f %.0f\n", cpu[BATCHES / 2], wall[BATCHES / 2], bpf);
	return 0;
}
