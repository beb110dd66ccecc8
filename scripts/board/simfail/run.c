// SPDX-License-Identifier: MIT
/* Run one scenario, and hold what failed against what its table row says. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "machine.h"
#include "scenario.h"
#include "stub.h"
#include "undo.h"

static void check_needs(const struct scenario *scenario)
{
	const char *missing = NULL;

	if (scenario->needs & NEED_ROOT && geteuid())
		missing = "not root";
	if (!missing && scenario->needs & NEED_INJECT)
		missing = stub_missing();
	if (!missing && scenario->needs & NEED_CGROUP)
		missing = cgroup_missing();
	if (missing)
		not_possible("%s", missing);
}

static unsigned int count_of(enum call call, int error)
{
	for (int i = 0; i < MAX_FAILURE_KINDS; i++)
		if (tally->failures[i].call == (int)call && tally->failures[i].error == error)
			return tally->failures[i].count;
	return 0;
}

static unsigned int kinds_of_failure(void)
{
	unsigned int kinds = 0;

	for (int i = 0; i < MAX_FAILURE_KINDS; i++)
		kinds += tally->failures[i].count > 0;
	return kinds;
}

/* Every failure of the outcome happened, as often as it says, and no other did. */
static bool outcome_matches(const struct outcome *outcome)
{
	for (unsigned int i = 0; i < outcome->failure_count; i++) {
		const struct expected_failure *failure = &outcome->failures[i];
		unsigned int count = count_of(failure->call, failure->error);

		if (!count || (failure->count && count != failure->count))
			return false;
	}
	return kinds_of_failure() == outcome->failure_count;
}

struct text {
	char text[512];
	size_t length;
};

static void put(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct text *text, const char *format, ...)
{
	va_list list;
	int length;

	va_start(list, format);
	length =
	    vsnprintf(text->text + text->length, sizeof(text->text) - text->length, format, list);
	va_end(list);
	if (length > 0)
		text->length += (size_t)length;
	if (text->length >= sizeof(text->text))
		text->length = sizeof(text->text) - 1;
}

static void put_expected(struct text *text, const struct scenario *scenario)
{
	for (unsigned int i = 0; i < scenario->outcome_count; i++) {
		const struct outcome *outcome = &scenario->outcomes[i];

		put(text, "%s", i ? ", or " : "");
		for (unsigned int j = 0; j < outcome->failure_count; j++)
			put(text, "%s%s %s", j ? " + " : "", call_name(outcome->failures[j].call),
			    error_name(outcome->failures[j].error));
		if (!outcome->failure_count)
			put(text, "no failure");
	}
}

static void put_got(struct text *text)
{
	const char *plus = "";

	for (int i = 0; i < MAX_FAILURE_KINDS; i++) {
		const struct failure *failure = &tally->failures[i];

		if (!failure->count)
			continue;
		put(text, "%s%s %s", plus, call_name(failure->call), error_name(failure->error));
		if (failure->count > 1)
			put(text, " x%u", failure->count);
		plus = " + ";
	}
	if (!*plus)
		put(text, "no failure");
}

/* NULL if nothing matched. */
static const struct outcome *compare(const struct scenario *scenario, struct text *difference)
{
	const struct exact_count *exact = &scenario->exact;

	if (tally->difference_taken) {
		put(difference, "%s", tally->difference);
		return NULL;
	}
	if (exact->count && tally->calls[exact->call] != exact->count) {
		put(difference, "expected %u calls of %s, got %u", exact->count,
		    call_name(exact->call), tally->calls[exact->call]);
		return NULL;
	}
	for (unsigned int i = 0; i < scenario->outcome_count; i++)
		if (outcome_matches(&scenario->outcomes[i]))
			return &scenario->outcomes[i];
	put(difference, "expected ");
	put_expected(difference, scenario);
	put(difference, "; got ");
	put_got(difference);
	return NULL;
}

static const char *const result_names[] = {
    [EXIT_AS_EXPECTED] = "as expected",
    [EXIT_MISMATCH] = "mismatch",
    [EXIT_NOT_POSSIBLE] = "not possible",
};

static void print_json_string(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar((unsigned char)*text < ' ' ? ' ' : *text);
	}
	putchar('"');
}

static void print_json(const struct scenario *scenario, int status, const char *why,
                       const struct outcome *outcome)
{
	const char *comma = "";

	printf("{\"name\": \"%s\", \"result\": \"%s\", \"why\": ", scenario->name,
	       result_names[status]);
	print_json_string(why);
	printf(", \"when\": ");
	print_json_string(outcome ? outcome->when : "");
	printf(", \"failures\": [");
	for (int i = 0; i < MAX_FAILURE_KINDS; i++) {
		const struct failure *failure = &tally->failures[i];

		if (!failure->count)
			continue;
		printf("%s{\"call\": \"%s\", \"errno\": \"%s\", \"count\": %u}", comma,
		       call_name(failure->call), error_name(failure->error), failure->count);
		comma = ", ";
	}
	printf("], \"calls\": {");
	comma = "";
	for (int call = CALL_NONE + 1; call < CALL_COUNT; call++) {
		if (!tally->calls[call])
			continue;
		printf("%s\"%s\": %u", comma, call_name(call), tally->calls[call]);
		comma = ", ";
	}
	printf("}}\n");
	fflush(stdout);
}

int scenario_run(const struct scenario *scenario, int fd, bool json)
{
	struct text why = {.length = 0}, got = {.length = 0};
	const struct outcome *outcome = NULL;
	int status = EXIT_NOT_POSSIBLE;

	if (!steps_begin(fd)) {
		dprintf(STDERR_FILENO, "simfail: no memory for the step log\n");
		return EXIT_MISMATCH;
	}
	undo_on_signals();
	check_needs(scenario);
	if (!tally->skip_taken)
		scenario->run();
	undo_all();
	if (tally->skip_taken) {
		put(&why, "%s", tally->skip);
		dprintf(fd, "simfail: %s: not possible here: %s\n", scenario->name, why.text);
	} else {
		outcome = compare(scenario, &why);
		status = outcome ? EXIT_AS_EXPECTED : EXIT_MISMATCH;
		put_got(&got);
		if (outcome)
			dprintf(fd, "simfail: %s: as expected (%s)\n", scenario->name, got.text);
		else
			dprintf(fd, "simfail: %s: %s\n", scenario->name, why.text);
	}
	if (json)
		print_json(scenario, status, why.text, outcome);
	return status;
}
