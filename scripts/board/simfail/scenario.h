/* SPDX-License-Identifier: MIT */
/* What a scenario is. The table (table.c) is the one definition; --list --json hands it to the
 * tests. */
#ifndef SIMFAIL_SCENARIO_H
#define SIMFAIL_SCENARIO_H

#include <stdbool.h>

#include "step.h"

/* The verdicts a tracer can reach; the names are those of the design's verdict table. */
enum cause {
	CAUSE_CLEAN,
	CAUSE_RECOVERED,
	CAUSE_KERNEL_CAP,
	CAUSE_KERNEL_MEMORY,
	CAUSE_KERNEL_REJECTED,
	CAUSE_GPU_FAULT,
	CAUSE_PROCESS_LIMIT,
	CAUSE_DRIVER_VA,
	CAUSE_APPLICATION,
	CAUSE_COUNT,
};

enum need {
	NEED_INJECT = 1 << 0, /* the stub GPU's fault injection */
	NEED_CGROUP = 1 << 1, /* a writable cgroup v2 hierarchy with the memory controller */
	NEED_ROOT = 1 << 2,
};

/* One kind of failure: which call, with what, how often (0: once or more). */
struct expected_failure {
	enum call call;
	int error;
	unsigned int count;
};

#define MAX_EXPECTED_FAILURES 3
#define MAX_OUTCOMES          3

/*
 * Everything that fails in one acceptable run; the first failure is the culprit. Kernels differ in
 * where they refuse the same thing, so a scenario may have several outcomes. Which one happened
 * decides, never the kernel's version.
 */
struct outcome {
	const char *when;
	struct expected_failure failures[MAX_EXPECTED_FAILURES];
	unsigned int failure_count;
};

/* The limit that is hit. The value is 0 where only the machine or the scenario's request has it. */
struct limit {
	const char *name;
	unsigned long long value;
};

/* A call made exactly that many times: for finding lost records. */
struct exact_count {
	enum call call;
	unsigned int count;
};

struct scenario {
	const char *name;
	const char *wrong; /* what goes wrong, in one line */
	enum cause cause;
	struct outcome outcomes[MAX_OUTCOMES];
	unsigned int outcome_count;
	struct limit limit;
	struct exact_count exact;
	unsigned int needs;
	void (*run)(void);
};

extern const struct scenario scenarios[];
extern const unsigned int scenario_count;

const char *cause_name(enum cause cause);
/* With --as-program: whether it ends by SIGABRT, as an uncaught C++ exception does. */
bool scenario_aborts(const struct scenario *scenario);
/* Whether panthor itself writes to the kernel log. */
bool scenario_is_logged(const struct scenario *scenario);
const struct scenario *scenario_named(const char *name);

/* list.c */
void list_text(void);
void list_json(void);

/*
 * run.c: run one scenario in this process, steps and result on descriptor `fd` and with `json` the
 * result also as one line of JSON on stdout. Returns an exit status (0, 1 or 77).
 */
int scenario_run(const struct scenario *scenario, int fd, bool json);

enum { EXIT_AS_EXPECTED = 0, EXIT_MISMATCH = 1, EXIT_USAGE = 2, EXIT_NOT_POSSIBLE = 77 };

#endif
