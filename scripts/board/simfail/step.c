// SPDX-License-Identifier: MIT
/* The step log and the tally behind it. Nothing here allocates: scenarios exhaust memory on
 * purpose. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "step.h"

static const struct {
	const char *name;
	const char *layer;
} call_kinds[CALL_COUNT] = {
    [CALL_NONE] = {"none", "none"},
    [CALL_VERSION] = {"VERSION", "ioctl"},
    [CALL_DEV_QUERY] = {"DEV_QUERY", "ioctl"},
    [CALL_VM_CREATE] = {"VM_CREATE", "ioctl"},
    [CALL_VM_DESTROY] = {"VM_DESTROY", "ioctl"},
    [CALL_VM_BIND] = {"VM_BIND", "ioctl"},
    [CALL_VM_GET_STATE] = {"VM_GET_STATE", "ioctl"},
    [CALL_BO_CREATE] = {"BO_CREATE", "ioctl"},
    [CALL_BO_MMAP_OFFSET] = {"BO_MMAP_OFFSET", "ioctl"},
    [CALL_BO_SET_LABEL] = {"BO_SET_LABEL", "ioctl"},
    [CALL_GEM_CLOSE] = {"GEM_CLOSE", "ioctl"},
    [CALL_GROUP_CREATE] = {"GROUP_CREATE", "ioctl"},
    [CALL_GROUP_DESTROY] = {"GROUP_DESTROY", "ioctl"},
    [CALL_GROUP_SUBMIT] = {"GROUP_SUBMIT", "ioctl"},
    [CALL_GROUP_GET_STATE] = {"GROUP_GET_STATE", "ioctl"},
    [CALL_TILER_HEAP_CREATE] = {"TILER_HEAP_CREATE", "ioctl"},
    [CALL_TILER_HEAP_DESTROY] = {"TILER_HEAP_DESTROY", "ioctl"},
    [CALL_PRIME_HANDLE_TO_FD] = {"PRIME_HANDLE_TO_FD", "ioctl"},
    [CALL_SYNCOBJ_CREATE] = {"SYNCOBJ_CREATE", "ioctl"},
    [CALL_SYNCOBJ_DESTROY] = {"SYNCOBJ_DESTROY", "ioctl"},
    [CALL_SYNCOBJ_WAIT] = {"SYNCOBJ_WAIT", "ioctl"},
    [CALL_SYNCOBJ_HANDLE_TO_FD] = {"SYNCOBJ_HANDLE_TO_FD", "ioctl"},
    [CALL_OPEN] = {"open", "syscall"},
    [CALL_MMAP] = {"mmap", "syscall"},
    [CALL_MUNMAP] = {"munmap", "syscall"},
    [CALL_JOB] = {"job", "driver"},
    [CALL_HEAP_GROW] = {"heap-grow", "driver"},
    [CALL_OOM_KILL] = {"oom-kill", "driver"},
};

struct tally *tally;

static int log_fd = STDERR_FILENO;
static pid_t main_thread;
static bool quiet;
static unsigned int calls_before_quiet;
static bool held;
static char held_lines[8192]; /* written to before a hold: no page fault while it lasts */
static size_t held_length;

const char *call_name(enum call call)
{
	return call_kinds[call].name;
}

const char *call_layer(enum call call)
{
	return call_kinds[call].layer;
}

const char *error_name(int error)
{
	return error ? strerrorname_np(error) : "0";
}

static unsigned int calls_made(void)
{
	unsigned int sum = 0;

	for (int call = 0; call < CALL_COUNT; call++)
		sum += atomic_load(&tally->calls[call]);
	return sum;
}

bool steps_begin(int fd)
{
	log_fd = fd;
	main_thread = getpid();
	quiet = held = false;
	held_length = 0;
	if (!tally) {
		void *shared = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE,
		                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		if (shared == MAP_FAILED)
			return false;
		tally = shared;
	}
	memset(tally, 0, sizeof(*tally));
	return true;
}

static void emit(const char *line, size_t length)
{
	if (held) {
		size_t room = sizeof(held_lines) - held_length;

		if (length > room)
			length = room;
		memcpy(held_lines + held_length, line, length);
		held_length += length;
		return;
	}
	/* One write a line: lines of several processes may interleave, but never mix. */
	while (length) {
		ssize_t written = write(log_fd, line, length);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return; /* nowhere left to complain to */
		line += written;
		length -= (size_t)written;
	}
}

static size_t clamp(int length, size_t room)
{
	if (length < 0)
		return 0;
	return (size_t)length < room ? (size_t)length : room - 1;
}

/* Two spaces, and the thread where it is not the scenario's first. */
static size_t put_indent(char *line, size_t room)
{
	pid_t thread = (pid_t)syscall(SYS_gettid);

	if (thread == main_thread)
		return clamp(snprintf(line, room, "  "), room);
	return clamp(snprintf(line, room, "  [%d] ", thread), room);
}

static void count_failure(enum call call, int error)
{
	for (int i = 0; i < MAX_FAILURE_KINDS; i++) {
		struct failure *failure = &tally->failures[i];
		int unused = CALL_NONE;

		/* Whoever claims the slot writes the error; others spin for that instant. */
		if (atomic_compare_exchange_strong(&failure->call, &unused, (int)call))
			atomic_store(&failure->error, error);
		while (!atomic_load(&failure->error))
			;
		if (atomic_load(&failure->call) == (int)call &&
		    atomic_load(&failure->error) == error) {
			atomic_fetch_add(&failure->count, 1);
			return;
		}
	}
	expect(false, "more than %d kinds of failure", MAX_FAILURE_KINDS);
}

int step(enum call call, int result, const char *arguments, ...)
{
	char line[320];
	size_t length;
	va_list list;

	atomic_fetch_add(&tally->calls[call], 1);
	if (result < 0)
		count_failure(call, -result);
	if (quiet && result >= 0)
		return result;
	length = put_indent(line, sizeof(line));
	length += clamp(snprintf(line + length, sizeof(line) - length, "%s ", call_name(call)),
	                sizeof(line) - length);
	va_start(list, arguments);
	length += clamp(vsnprintf(line + length, sizeof(line) - length, arguments, list),
	                sizeof(line) - length);
	va_end(list);
	if (result < 0)
		length += clamp(snprintf(line + length, sizeof(line) - length, " -> -1 %s\n",
		                         error_name(-result)),
		                sizeof(line) - length);
	else
		length += clamp(snprintf(line + length, sizeof(line) - length, " -> 0\n"),
		                sizeof(line) - length);
	emit(line, length);
	return result;
}

void note(const char *text, ...)
{
	char line[320];
	size_t length = put_indent(line, sizeof(line));
	va_list list;

	va_start(list, text);
	length += clamp(vsnprintf(line + length, sizeof(line) - length, text, list),
	                sizeof(line) - length);
	va_end(list);
	length +=
	    clamp(snprintf(line + length, sizeof(line) - length, "\n"), sizeof(line) - length);
	emit(line, length);
}

void steps_quiet(void)
{
	quiet = true;
	calls_before_quiet = calls_made();
}

void steps_loud(void)
{
	quiet = false;
	note("(%u calls, those that succeeded not shown)", calls_made() - calls_before_quiet);
}

void steps_hold(void)
{
	memset(held_lines, 0, sizeof(held_lines)); /* own pages also after a fork */
	held = true;
}

void steps_release(void)
{
	held = false;
	emit(held_lines, held_length);
	held_length = 0;
}

bool expect(bool met, const char *difference, ...)
{
	va_list list;

	if (met || atomic_exchange(&tally->difference_taken, 1))
		return met;
	va_start(list, difference);
	vsnprintf(tally->difference, sizeof(tally->difference), difference, list);
	va_end(list);
	return false;
}

void not_possible(const char *why, ...)
{
	va_list list;

	if (atomic_exchange(&tally->skip_taken, 1))
		return;
	va_start(list, why);
	vsnprintf(tally->skip, sizeof(tally->skip), why, list);
	va_end(list);
}
