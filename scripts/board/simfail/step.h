/* SPDX-License-Identifier: MIT */
/* Steps: every call a scenario makes is logged as one line and counted, across threads and
 * children. */
#ifndef SIMFAIL_STEP_H
#define SIMFAIL_STEP_H

#include <stdatomic.h>
#include <stdbool.h>

enum call {
	CALL_NONE,
	/* DRM ioctls */
	CALL_VERSION,
	CALL_DEV_QUERY,
	CALL_VM_CREATE,
	CALL_VM_DESTROY,
	CALL_VM_BIND,
	CALL_VM_GET_STATE,
	CALL_BO_CREATE,
	CALL_BO_MMAP_OFFSET,
	CALL_BO_SET_LABEL,
	CALL_GEM_CLOSE,
	CALL_GROUP_CREATE,
	CALL_GROUP_DESTROY,
	CALL_GROUP_SUBMIT,
	CALL_GROUP_GET_STATE,
	CALL_TILER_HEAP_CREATE,
	CALL_TILER_HEAP_DESTROY,
	CALL_PRIME_HANDLE_TO_FD,
	CALL_SYNCOBJ_CREATE,
	CALL_SYNCOBJ_DESTROY,
	CALL_SYNCOBJ_WAIT,
	CALL_SYNCOBJ_HANDLE_TO_FD,
	/* other system calls */
	CALL_OPEN,
	CALL_MMAP,
	CALL_MUNMAP,
	/* no call of the program: what happened to it all the same */
	CALL_JOB,       /* a job's fence signalled with an error */
	CALL_HEAP_GROW, /* the driver refused the firmware another heap chunk */
	CALL_OOM_KILL,  /* the kernel killed the process for memory */
	CALL_COUNT,
};

/* Who answers the call: "ioctl", "syscall", or "driver" where no call of the program fails. */
const char *call_name(enum call call);
const char *call_layer(enum call call);
const char *error_name(int error);

#define MAX_FAILURE_KINDS 16

struct failure {
	atomic_int call;
	atomic_int error;
	atomic_uint count;
};

/* Shared by all threads and child processes of a scenario. */
struct tally {
	atomic_uint calls[CALL_COUNT];
	struct failure failures[MAX_FAILURE_KINDS];
	atomic_int difference_taken;
	char difference[256]; /* the first unmet expectation that is not a failing call */
	atomic_int skip_taken;
	char skip[256]; /* why the scenario is not possible here */
};

extern struct tally *tally;

/* Start counting anew; lines go to descriptor `fd`. False if there is no memory for the tally. */
bool steps_begin(int fd);

/* Log and count one call: `result` is 0 or -errno, which is returned. The text: its arguments. */
int step(enum call call, int result, const char *arguments, ...)
    __attribute__((format(printf, 3, 4)));

/* A line that is no call. */
void note(const char *text, ...) __attribute__((format(printf, 1, 2)));

/*
 * Print only calls that fail, until steps_loud() says how many did not. For loops, and (`hold`) for
 * stretches in which a write() could itself be what fails.
 */
void steps_quiet(void);
void steps_loud(void);
void steps_hold(void);
void steps_release(void);

/* An expectation besides the failing calls; the first one not met is reported. */
bool expect(bool met, const char *difference, ...) __attribute__((format(printf, 2, 3)));

/* The scenario cannot be had here; the first reason is reported, exit status 77. */
void not_possible(const char *why, ...) __attribute__((format(printf, 1, 2)));

#endif
