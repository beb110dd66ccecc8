// SPDX-License-Identifier: GPL-2.0-only
/*
 * The out-of-memory killer's choice of a traced process. The event is the kernel's own word for it;
 * a SIGKILL alone does not tell who sent it.
 */

/* mark_oom_victim() runs in whoever asked for the memory that was not there. */
TRACEPOINT_PROBE(oom, mark_victim)
{
	u32 victim = args->pid;

	if (traced.lookup(&victim))
		process_event(PROCESS_OOM_KILL, 0, victim, NULL);
	return 0;
}
