// SPDX-License-Identifier: MIT
/*
 * Maps a device: 23 mappings of one to 23 pages, 11 of them unmapped again, then one beyond
 * RLIMIT_AS, and all as it was before the process goes on. mapper PATH [go-on]     the limit lifted
 * and the last mapping repeated: got over
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define PAGE 4096UL
#define MIB  (1UL << 20)

int main(int argc, char **argv)
{
	int fd = open(argc > 1 ? argv[1] : "", O_RDWR);
	struct rlimit before, tight;
	void *refused;

	if (fd < 0) {
		perror("open");
		return 2;
	}
	for (unsigned long i = 1; i <= 23; i++) {
		char *address = mmap(NULL, i * PAGE, PROT_READ, MAP_SHARED, fd, i * PAGE);

		if (address == MAP_FAILED || (i <= 11 && munmap(address, i * PAGE)))
			return 3;
	}
	getrlimit(RLIMIT_AS, &before);
	tight = before;
	tight.rlim_cur = 256 * MIB;
	setrlimit(RLIMIT_AS, &tight);
	refused = mmap(NULL, 512 * MIB, PROT_READ, MAP_SHARED, fd, 0);
	setrlimit(RLIMIT_AS, &before);
	usleep(100000); /* the modules of a process that has ended cannot be looked up any more */
	if (refused != MAP_FAILED)
		return 4;
	if (argc > 2 && !strcmp(argv[2], "go-on"))
		return mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED;
	return 1;
}
