// SPDX-License-Identifier: MIT
/*
 * Loads a Vulkan loader with dlopen, as engines do, and makes one instance, one device, 23
 * dispatches and one allocation of 2 GiB that is refused. engine LIBRARY [at-once|unlinked]
 * at-once: without waiting, so that nobody can be in time; unlinked: the file is gone before its
 * functions are called
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct allocate_info {
	int type;
	const void *next;
	unsigned long size;
	unsigned int memory_type;
};

typedef int (*create_instance)(const void *, const void *, void **);
typedef int (*create_device)(void *, const void *, const void *, void **);
typedef int (*allocate)(void *, const struct allocate_info *, const void *, void *);
typedef void (*dispatch)(void *, unsigned int, unsigned int, unsigned int);

__attribute__((noinline)) static int allocate_too_much(void *library)
{
	struct allocate_info info = {.size = 2UL << 30, .memory_type = 5};
	int result = ((allocate)dlsym(library, "vkAllocateMemory"))((void *)0x1, &info, NULL, NULL);

	__asm__ volatile("" : "+r"(result)); /* no tail call: this function is to be on the stack */
	return result;
}

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[2] : "";
	void *library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW);

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	if (!strcmp(how, "unlinked") && unlink(argv[1]))
		return 3;
	if (strcmp(how, "at-once"))
		usleep(300000);
	((create_instance)dlsym(library, "vkCreateInstance"))(NULL, NULL, NULL);
	((create_device)dlsym(library, "vkCreateDevice"))(NULL, NULL, NULL, NULL);
	for (unsigned int i = 1; i <= 23; i++)
		((dispatch)dlsym(library, "vkCmdDispatch"))((void *)0xcb, i, 2, 3);
	return allocate_too_much(library) == -2 ? 0 : 4;
}
