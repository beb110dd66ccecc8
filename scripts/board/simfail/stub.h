/* SPDX-License-Identifier: MIT */
/* The stub GPU's fault injection: a line written to a debugfs file. */
#ifndef SIMFAIL_STUB_H
#define SIMFAIL_STUB_H

#include <stdbool.h>

/* NULL if injection is possible, else why not. */
const char *stub_missing(void);
/* Clear what was injected now, and again when the scenario ends. */
bool stub_begin(void);
/*
 * Before a fault that makes the driver give the device up: have it probed anew, by stub_rebind() or
 * at the latest when the scenario ends.
 */
bool stub_begin_rebind(void);
void stub_rebind(void);
/* Write one injection, e.g. "hold" or "tiler-oom heap=0x…". Noted; false (and a difference) if
 * refused. */
bool stub_inject(const char *injection, ...) __attribute__((format(printf, 1, 2)));
/* A counter's value; a difference and 0 if there is none of that name. */
unsigned long long stub_counter(const char *name);
/*
 * The firmware runs out of tiler heap memory, with that many render passes in flight. False if the
 * driver does not answer; else whether it gave a chunk.
 */
bool stub_tiler_oom(unsigned long long heap_context_va, unsigned int passes, bool *granted);
void sleep_ms(unsigned int milliseconds);

#endif
