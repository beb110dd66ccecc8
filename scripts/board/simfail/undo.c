// SPDX-License-Identifier: MIT
#include <signal.h>
#include <stddef.h>

#include "undo.h"

#define MAX_UNDO 16

static struct {
	undo_fn function;
	long argument;
} stack[MAX_UNDO];
static volatile sig_atomic_t depth;

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static void block_signals(sigset_t *before)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(ending_signals) / sizeof(*ending_signals); i++)
		sigaddset(&set, ending_signals[i]);
	sigprocmask(SIG_BLOCK, &set, before);
}

void undo_push(undo_fn function, long argument)
{
	sigset_t before;

	if (depth >= MAX_UNDO)
		__builtin_trap(); /* a scenario's bug */
	block_signals(&before);
	stack[depth].function = function;
	stack[depth].argument = argument;
	depth = depth + 1;
	sigprocmask(SIG_SETMASK, &before, NULL);
}

void undo_all(void)
{
	sigset_t before;

	block_signals(&before);
	while (depth > 0) {
		depth = depth - 1;
		stack[depth].function(stack[depth].argument);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
}

void undo_forget(void)
{
	depth = 0;
}

static void on_signal(int number)
{
	undo_all();
	/* SA_RESETHAND and SA_NODEFER: the default action follows. */
	raise(number);
}

void undo_on_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND | SA_NODEFER};

	for (size_t i = 0; i < sizeof(ending_signals) / sizeof(*ending_signals); i++)
		sigaction(ending_signals[i], &action, NULL);
}
