// SPDX-License-Identifier: MIT
/*
 * Issues panthor's ioctls on the file named by argv[1], which need not understand them: what
 * matters is that they are made, how often, and with which arguments. Numbers of calls are prime,
 * so that a count that comes out right did not come out right by chance.
 *
 *   ioctls FILE        23 BO_CREATE of 4096·n bytes, then VM_BIND of 1, 11 and 600 operations
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

#define BO_CREATE _IOWR('d', 0x45, struct bo_create)
#define VM_BIND   _IOWR('d', 0x43, struct vm_bind)

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
		return elsewhere(fd);
	for (int i = 0; i < 600; i++)
		ops[i].size = 4096ull * (i + 1);
	create(fd);
	bind(fd, 1);
	bind(fd, 11);
	bind(fd, 600);
	return 0;
}
