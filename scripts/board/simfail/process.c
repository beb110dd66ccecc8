// SPDX-License-Identifier: MIT
/* Limits of the process. Each is reached within the process: no setting of the machine is touched.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "groups.h"
#include "work.h"

#define PAGE 4096u

static long read_number(const char *path)
{
	char text[32] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	if (fd >= 0)
		close(fd);
	return atol(text);
}

/*
 * Use up the process's mappings: a region whose pages alternate in protection is one mapping a
 * page. mprotect() stops one short of the limit, mmap() goes up to it.
 */
static void *use_up_mappings(size_t *size)
{
	long limit = read_number("/proc/sys/vm/max_map_count");
	char *region;

	*size = ((size_t)limit + 16) * PAGE;
	region = mmap(NULL, *size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!expect(limit > 0 && region != MAP_FAILED, "reserving %zu bytes: %s", *size,
	            error_name(errno)))
		return NULL;
	for (size_t at = PAGE; at < *size; at += 2 * PAGE)
		if (mprotect(region + at, PAGE, PROT_READ))
			break;
	if (!expect(errno == ENOMEM, "mprotect: %s", error_name(errno)))
		return NULL;
	/* Two protections in turn, so that neighbours do not become one mapping. */
	for (unsigned int i = 0; i < 16; i++)
		if (mmap(NULL, PAGE, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		         0) == MAP_FAILED)
			break;
	return region;
}

void run_mmap_map_count(void)
{
	struct work work;
	uint32_t bo;
	void *region = NULL, *address;
	size_t size;

	if (work_begin(&work, 1) && work_job(&work, 0) &&
	    !bo_create(&work.gpu, MIB, 0, work.vm, &bo)) {
		region = use_up_mappings(&size);
		if (region)
			bo_mmap(&work.gpu, bo, MIB, &address);
		if (region)
			munmap(region, size);
		bo_close(&work.gpu, bo);
	}
	work_end(&work);
}

void run_mmap_address_space(void)
{
	struct rlimit before, tight;
	struct work work;
	uint32_t bo;
	void *address;

	if (work_begin(&work, 1) && work_job(&work, 0) &&
	    !bo_create(&work.gpu, 16 * MIB, 0, work.vm, &bo)) {
		getrlimit(RLIMIT_AS, &before);
		tight = before;
		/* The first field of statm is the address space in pages. */
		tight.rlim_cur = (rlim_t)read_number("/proc/self/statm") * PAGE + 8 * MIB;
		if (expect(!setrlimit(RLIMIT_AS, &tight), "setrlimit: %s", error_name(errno))) {
			note("RLIMIT_AS %" PRIu64, (uint64_t)tight.rlim_cur);
			bo_mmap(&work.gpu, bo, 16 * MIB, &address);
			setrlimit(RLIMIT_AS, &before);
		}
		bo_close(&work.gpu, bo);
	}
	work_end(&work);
}

/* No descriptor more than there are. False: a difference. */
static bool forbid_descriptors(struct rlimit *before)
{
	struct rlimit tight;
	int next = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (!expect(next >= 0 && !getrlimit(RLIMIT_NOFILE, before), "RLIMIT_NOFILE: %s",
	            error_name(errno)))
		return false;
	close(next);
	tight = *before;
	tight.rlim_cur = (rlim_t)next;
	note("RLIMIT_NOFILE %d", next);
	return expect(!setrlimit(RLIMIT_NOFILE, &tight), "setrlimit: %s", error_name(errno));
}

void run_export_nofile(void)
{
	struct rlimit before;
	struct gpu gpu;
	uint32_t bo;
	int fd;

	if (!gpu_open(&gpu) && !bo_create(&gpu, 64 * KIB, 0, 0, &bo) &&
	    forbid_descriptors(&before)) {
		bo_export(&gpu, bo, &fd);
		setrlimit(RLIMIT_NOFILE, &before);
	}
	gpu_close(&gpu);
}

void run_open_nofile(void)
{
	struct rlimit before;
	struct gpu gpu, second;

	if (!gpu_open(&gpu) && forbid_descriptors(&before)) {
		gpu_open(&second);
		setrlimit(RLIMIT_NOFILE, &before);
	}
	gpu_close(&gpu);
}
