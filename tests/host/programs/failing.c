// SPDX-License-Identifier: MIT
/*
 * Fails in five ways that /dev/null knows, one after the other, and ends with status 7.
 *   failing [PAUSE_US [THREADS]]   so long between two failures; with threads that sleep in poll()
 *   failing child …                in a child process, waited for without asking for stops
 *   failing catches …              with a handler for SIGCONT
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUEST(number) _IOC(_IOC_READ | _IOC_WRITE, 'd', number, 24)

static void handler(int number)
{
	(void)number;
}

static void *sleeps(void *nothing)
{
	for (;;)
		poll(NULL, 0, 1000);
	return nothing;
}

int main(int argc, char **argv)
{
	char argument[24] = {0};
	pthread_t thread;
	int fd, status;

	if (argc > 1 && !strcmp(argv[1], "child")) {
		if (fork()) {
			wait(&status);
			return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
		}
		argc--;
		argv++;
	}
	if (argc > 1 && !strcmp(argv[1], "catches")) {
		signal(SIGCONT, handler);
		argc--;
		argv++;
	}
	fd = open("/dev/null", O_RDWR);
	for (int i = argc > 2 ? atoi(argv[2]) : 0; i > 0; i--)
		pthread_create(&thread, NULL, sleeps, NULL);
	for (int number = 0x41; number <= 0x45; number++) {
		if (ioctl(fd, REQUEST(number), argument) == 0)
			return 3;
		usleep(argc > 1 ? (useconds_t)atoi(argv[1]) : 0);
	}
	return 7;
}
