// SPDX-License-Identifier: MIT
/*
 * One ioctl that /dev/null refuses, below functions with names; or NUMBER of them.
 *   refused [NUMBER]
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define BO_CREATE _IOC(_IOC_READ | _IOC_WRITE, 'd', 0x45, 24)

__attribute__((noinline)) static int innermost_of_ours(int fd)
{
	char argument[24] = {0};
	int result = ioctl(fd, BO_CREATE, argument);

	__asm__ volatile("" : "+r"(result));
	return result;
}

__attribute__((noinline)) int asks_for_buffers(int fd, int number)
{
	int result = 0;

	for (int i = 0; i < number; i++)
		result |= innermost_of_ours(fd);
	return result;
}

int main(int argc, char **argv)
{
	int result = asks_for_buffers(open("/dev/null", O_RDWR), argc > 1 ? atoi(argv[1]) : 1);

	usleep(100000); /* the mappings of a process that has ended cannot be looked up any more */
	return result == -1 ? 0 : 2;
}
