// SPDX-License-Identifier: MIT
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "step.h"
#include "stub.h"
#include "undo.h"

#define INJECT        "/sys/kernel/debug/stub_gpu/inject"
#define COUNTERS      "/sys/kernel/debug/stub_gpu/counters" /* "name value" a line */
#define POLL_MS       10
#define OOM_ANSWER_MS 3000

/* Async-signal-safe: also called from a signal handler. */
static int write_injection(const char *text, size_t length)
{
	int fd = open(INJECT, O_WRONLY | O_CLOEXEC);
	int error = 0;

	if (fd < 0)
		return errno;
	if (write(fd, text, length) != (ssize_t)length)
		error = errno;
	close(fd);
	return error;
}

static void clear(long unused)
{
	(void)unused;
	write_injection("clear", 5);
}

const char *stub_missing(void)
{
	if (!access(INJECT, W_OK))
		return NULL;
	return errno == EACCES ? "no permission to write " INJECT : "there is no " INJECT;
}

bool stub_begin(void)
{
	undo_push(clear, 0);
	return stub_inject("clear");
}

bool stub_inject(const char *injection, ...)
{
	char text[128];
	va_list list;
	int error;

	va_start(list, injection);
	vsnprintf(text, sizeof(text), injection, list);
	va_end(list);
	error = write_injection(text, strlen(text));
	note("inject %s%s%s", text, error ? ": " : "", error ? error_name(error) : "");
	return expect(!error, "injecting %s: %s", text, error_name(error));
}

#define DRIVER "/sys/bus/platform/drivers/panthor"

static char device_name[256];

/* Async-signal-safe. */
static void write_driver(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	/* Where the driver refuses, there is no device afterwards, and that is looked at. */
	(void)!write(fd, device_name, strlen(device_name));
	close(fd);
}

static void rebind(long unused)
{
	if (!device_name[0])
		return; /* done already */
	clear(unused);
	write_driver(DRIVER "/unbind");
	write_driver(DRIVER "/bind");
	device_name[0] = '\0';
}

void stub_rebind(void)
{
	rebind(0);
}

bool stub_begin_rebind(void)
{
	DIR *directory = opendir(DRIVER);
	struct dirent *entry;

	/* The devices a driver has are links in its directory, beside "module". */
	device_name[0] = '\0';
	while (directory && (entry = readdir(directory)))
		if (entry->d_type == DT_LNK && strcmp(entry->d_name, "module"))
			snprintf(device_name, sizeof(device_name), "%s", entry->d_name);
	if (directory)
		closedir(directory);
	if (!device_name[0]) {
		not_possible("no device in " DRIVER);
		return false;
	}
	undo_push(rebind, 0);
	return true;
}

unsigned long long stub_counter(const char *name)
{
	char text[4096];
	size_t name_length = strlen(name);
	ssize_t length;
	int fd;

	fd = open(COUNTERS, O_RDONLY | O_CLOEXEC);
	length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (length > 0) {
		text[length] = '\0';
		for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
			if (!strncmp(line, name, name_length) && line[name_length] == ' ')
				return strtoull(line + name_length, NULL, 0);
	}
	expect(false, "the stub has no counter %s", name);
	return 0;
}

void sleep_ms(unsigned int milliseconds)
{
	struct timespec left = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

bool stub_tiler_oom(unsigned long long heap_context_va, unsigned int passes, bool *granted)
{
	unsigned long long before = stub_counter("tiler_oom_replies");

	if (!stub_inject("tiler-oom heap=0x%llx passes=%u", heap_context_va, passes))
		return false;
	for (int waited = 0; waited < OOM_ANSWER_MS; waited += POLL_MS) {
		if (stub_counter("tiler_oom_replies") > before) {
			*granted = stub_counter("tiler_oom_last_chunk") != 0;
			return true;
		}
		sleep_ms(POLL_MS);
	}
	return expect(false, "the driver did not answer the tiler-OOM event in %d ms",
	              OOM_ANSWER_MS);
}
