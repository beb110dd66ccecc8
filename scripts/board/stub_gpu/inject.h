/* SPDX-License-Identifier: GPL-2.0-only */
/* What inject.c (the file, arming) and faults.c (the table of faults) agree on. */
#ifndef STUB_GPU_INJECT_H
#define STUB_GPU_INJECT_H

#include "stub.h"

enum arg { ARG_CSG, ARG_CS, ARG_HEAP, ARG_CODE, ARG_ADDR, ARG_PASSES, ARG_RECOVER, ARG_AT, ARGS };

struct args {
	u64 value[ARGS];
	u32 given;
};

struct fault {
	const char *name;
	const char *help;
	int (*fire)(const struct args *args, unsigned int g, unsigned int q);
	u32 takes; /* arguments, beside csg, cs and at of those that need a stream */
	bool needs_stream;
	bool at_job_only; /* means something only when a job begins: at=1 if not given */
};

extern const struct fault faults[];
extern const unsigned int fault_count;

static inline u64 arg(const struct args *args, enum arg which, u64 otherwise)
{
	return args->given & BIT(which) ? args->value[which] : otherwise;
}

void inject_disarm_all(void);

#endif
