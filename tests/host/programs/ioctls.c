// SPDX-License-Identifier: MIT
/*
 * Issues panthor's ioctls on the file named by argv[1], which need not understand them: what
 * matters is that they are made, how often, and with which arguments. Numbers of calls are prime,
 * so that a count that comes out right did not come out right by chance.
 *
 *   ioctls FILE        23 BO_CREATE of 4096·n bytes, then VM_BIND of 1, 11 and 600 operations
 *   ioctls FILE points SYNCOBJ_TIMELINE_WAIT for 3, 16 and 17 points: 101… of handles 1…
 *   ioctls FILE other  23 BO_CREATE on a duplicated descriptor, in a thread of a child's child
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct bo_create {
	uint64_t size;
	uint32_t flags, exclusive_vm_id, handle, pad;
};

struct obj_array {
	uint32_t stride, count;
	uint64_t array;
};

struct vm_bind {
	uint32_t vm_id, flags;
	struct obj_array ops;
};

struct vm_bind_op {
	uint32_t flags, bo_handle;
	uint64_t bo_offset, va, size;
	struct obj_array syncs;
};

struct timeline_wait {
	uint64_t handles, points;
	int64_t timeout;
	uint32_t count, flags, first_signaled, pad;
	uint64_t deadline;
};

#define TIMELINE_WAIT _IOWR('d', 0xCA, struct timeline_wait)
#define BO_CREATE     _IOWR('d', 0x45, struct bo_create)
#define VM_BIND       _IOWR('d', 0x43, struct vm_bind)

static struct vm_bind_op ops[600];

static void create(int fd)
{
	for (int i = 1; i <= 23; i++) {
		struct bo_create bo = {.size = 4096ull * i, .flags = 1};

		ioctl(fd, BO_CREATE, &bo);
	}
}

static void bind(int fd, unsigned int count)
{
	struct vm_bind bind = {.vm_id = 1, .ops = {sizeof(ops[0]), count, (uintptr_t)ops}};

	ioctl(fd, VM_BIND, &bind);
}

static int wait_points(int fd)
{
	static const unsigned int counts[] = {3, 16, 17};
	uint32_t handles[17];
	uint64_t points[17];

	for (int i = 0; i < 17; i++) {
		handles[i] = i + 1;
		points[i] = i + 101;
	}
	for (int i = 0; i < 3; i++) {
		struct timeline_wait wait = {(uintptr_t)handles, (uintptr_t)points, 0, counts[i]};

		ioctl(fd, TIMELINE_WAIT, &wait);
	}
	return 0;
}

static void *in_thread(void *fd)
{
	create(*(int *)fd);
	return NULL;
}

static int elsewhere(int fd)
{
	int copy = fcntl(fd, F_DUPFD, 200);
	pthread_t thread;

	close(fd);
	if (fork() == 0) {
		if (fork() == 0) {
			pthread_create(&thread, NULL, in_thread, &copy);
			pthread_join(thread, NULL);
			_exit(0);
		}
		wait(NULL);
		_exit(0);
	}
	wait(NULL);
	return 0;
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR);

	if (fd < 0) {
		perror(argv[1]);
		return 1;
	}
	if (argc > 2)
		return strcmp(argv[2], "points") ? elsewhere(fd) : wait_points(fd);
	for (int i = 0; i < 600; i++)
		ops[i].size = 4096ull * (i + 1);
	create(fd);
	bind(fd, 1);
	bind(fd, 11);
	bind(fd, 600);
	return 0;
}
