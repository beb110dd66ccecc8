// SPDX-License-Identifier: MIT
/* The table for people and, as JSON, for tests. */
#include <stdio.h>

#include "scenario.h"

void list_text(void)
{
	for (unsigned int i = 0; i < scenario_count; i++)
		printf("%-21s %s\n", scenarios[i].name, scenarios[i].wrong);
}

/* No text of the table needs escaping; the unit test parses it all. */
static void print_failure(const struct expected_failure *failure)
{
	printf("{\"call\": \"%s\", \"layer\": \"%s\", \"errno\": \"%s\", \"count\": %u}",
	       call_name(failure->call), call_layer(failure->call), error_name(failure->error),
	       failure->count);
}

static void print_outcome(const struct outcome *outcome)
{
	printf("{\"when\": \"%s\", \"failures\": [", outcome->when);
	for (unsigned int i = 0; i < outcome->failure_count; i++) {
		printf("%s", i ? ", " : "");
		print_failure(&outcome->failures[i]);
	}
	printf("]}");
}

static void print_needs(unsigned int needs)
{
	static const struct {
		enum need need;
		const char *name;
	} names[] = {{NEED_INJECT, "inject"}, {NEED_CGROUP, "cgroup"}, {NEED_ROOT, "root"}};
	const char *comma = "";

	for (unsigned int i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (needs & names[i].need) {
			printf("%s\"%s\"", comma, names[i].name);
			comma = ", ";
		}
}

static void print_scenario(const struct scenario *scenario)
{
	const struct limit *limit = &scenario->limit;

	printf("  {\"name\": \"%s\", \"wrong\": \"%s\", \"cause\": \"%s\",\n   \"outcomes\": [",
	       scenario->name, scenario->wrong, cause_name(scenario->cause));
	for (unsigned int i = 0; i < scenario->outcome_count; i++) {
		printf("%s", i ? ", " : "");
		print_outcome(&scenario->outcomes[i]);
	}
	printf("],\n   \"limit\": ");
	if (limit->name && limit->value)
		printf("{\"name\": \"%s\", \"value\": %llu}", limit->name, limit->value);
	else if (limit->name)
		printf("{\"name\": \"%s\", \"value\": null}", limit->name);
	else
		printf("null");
	printf(", \"exact\": {");
	if (scenario->exact.count)
		printf("\"%s\": %u", call_name(scenario->exact.call), scenario->exact.count);
	printf("}, \"needs\": [");
	print_needs(scenario->needs);
	printf("],\n   \"driver_logs\": %s, \"aborts\": %s}",
	       scenario_is_logged(scenario) ? "true" : "false",
	       scenario_aborts(scenario) ? "true" : "false");
}

void list_json(void)
{
	printf("[\n");
	for (unsigned int i = 0; i < scenario_count; i++) {
		print_scenario(&scenarios[i]);
		printf("%s\n", i + 1 < scenario_count ? "," : "");
	}
	printf("]\n");
}
