/* SPDX-License-Identifier: MIT */
/* What must not outlive a scenario, also when a signal ends it. */
#ifndef SIMFAIL_UNDO_H
#define SIMFAIL_UNDO_H

/* Async-signal-safe calls only. */
typedef void (*undo_fn)(long argument);

/* Later entries are undone first; each once, in the process that pushed it. */
void undo_push(undo_fn function, long argument);
void undo_all(void);
/* In a child process after fork(): what the parent pushed is the parent's. */
void undo_forget(void);
/* From now on SIGINT, SIGTERM, SIGHUP and SIGQUIT undo everything, then end the process as they
 * would. */
void undo_on_signals(void);

#endif
