/* SPDX-License-Identifier: MIT */
/* The machine's memory, a memory cgroup of our own, and child processes. */
#ifndef SIMFAIL_MACHINE_H
#define SIMFAIL_MACHINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A BO size that no machine with this much memory can back, a multiple of 2 MiB. */
uint64_t more_than_memory(void);

/* NULL if a memory cgroup can be made, else why not. */
const char *cgroup_missing(void);
/* Make one with memory.max, without swap. It goes when the scenario does. */
bool cgroup_create(uint64_t memory_max);
/* Move this process into it (in a child: its parent could not leave cleanly). */
bool cgroup_enter(void);
/* A field of memory.events, e.g. "max", "oom_kill". */
unsigned long long cgroup_event(const char *field);

/* Run `body` in a child that ends with it, and with us. Returns its process id, or -1 and a
 * difference. */
pid_t child_start(void (*body)(int index), int index);
/* Wait; the wait status. */
int child_wait(pid_t child);
/* Wait for a child that should exit with status 0. */
bool child_finish(pid_t child);

#endif
