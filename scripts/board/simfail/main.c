// SPDX-License-Identifier: MIT
/* Named scenarios against panthor's uAPI, each making exactly one thing go wrong. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"
#include "scenario.h"

static const char usage_text[] =
    "usage: simfail [--device PATH] [--json] [--as-program] NAME... | --all\n"
    "       simfail --list [--json]\n"
    "\n"
    "Each scenario makes one thing go wrong on a panthor GPU and checks that just that does.\n"
    "  --list        what there is\n"
    "  --json        one JSON line a scenario on stdout (steps go to stderr); with --list the "
    "table\n"
    "  --as-program  end as a Vulkan program would: SIGABRT where the scenario's failure is fatal\n"
    "  --device PATH the render node (default: the first that is panthor's)\n"
    "Exit status: 0 as expected, 1 a difference, 2 usage, 77 not possible here.\n";

struct options {
	bool list, all, json, as_program;
};

static volatile sig_atomic_t child;
static volatile sig_atomic_t ended_by;

static bool parse(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {
	    {"list", no_argument, NULL, 'l'},
	    {"all", no_argument, NULL, 'a'},
	    {"json", no_argument, NULL, 'j'},
	    {"as-program", no_argument, NULL, 'p'},
	    {"help", no_argument, NULL, 'h'},
	    {"device", required_argument, NULL, 'd'},
	    {0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
		switch (option) {
		case 'l':
			options->list = true;
			break;
		case 'a':
			options->all = true;
			break;
		case 'j':
			options->json = true;
			break;
		case 'p':
			options->as_program = true;
			break;
		case 'd':
			gpu_device = optarg;
			break;
		case 'h':
			fputs(usage_text, stdout);
			exit(EXIT_AS_EXPECTED);
		default:
			return false;
		}
	}
	return (options->list || options->all) == (optind == argc);
}

static int run_here(const struct scenario *scenario, const struct options *options)
{
	int fd = options->json ? STDERR_FILENO : STDOUT_FILENO;
	int status = scenario_run(scenario, fd, options->json);

	if (status == EXIT_AS_EXPECTED && options->as_program && scenario_aborts(scenario)) {
		const struct rlimit none = {0, 0};

		setrlimit(RLIMIT_CORE, &none);
		fflush(NULL);
		abort();
	}
	return status;
}

/* The child undoes what it did; it is the one that gets to end first. */
static void pass_on(int number)
{
	ended_by = number;
	if (child > 0)
		kill(child, number);
}

/* Several scenarios are a process each: what one does to its process does not reach the next. */
static int run_apart(const struct scenario *scenario, const struct options *options)
{
	int status;

	fflush(NULL);
	child = fork();
	if (child < 0) {
		fprintf(stderr, "simfail: %s: fork: %s\n", scenario->name, strerror(errno));
		return EXIT_MISMATCH;
	}
	if (!child)
		exit(run_here(scenario, options));
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	child = 0;
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	if (options->as_program && WTERMSIG(status) == SIGABRT)
		return EXIT_AS_EXPECTED;
	if (!ended_by)
		fprintf(stderr, "simfail: %s: killed by SIG%s\n", scenario->name,
		        sigabbrev_np(WTERMSIG(status)));
	return EXIT_MISMATCH;
}

/* A difference outweighs everything; "not possible" counts only where nothing else was run. */
static int run_several(const struct scenario **chosen, unsigned int count,
                       const struct options *options)
{
	struct sigaction action = {.sa_handler = pass_on};
	unsigned int differing = 0, impossible = 0;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	for (unsigned int i = 0; i < count && !ended_by; i++) {
		int status = run_apart(chosen[i], options);

		differing += status != EXIT_AS_EXPECTED && status != EXIT_NOT_POSSIBLE;
		impossible += status == EXIT_NOT_POSSIBLE;
	}
	if (ended_by) {
		signal(ended_by, SIG_DFL);
		raise(ended_by);
	}
	fprintf(stderr, "simfail: %u scenarios: %u as expected, %u differ, %u not possible here\n",
	        count, count - differing - impossible, differing, impossible);
	if (differing)
		return EXIT_MISMATCH;
	return impossible == count ? EXIT_NOT_POSSIBLE : EXIT_AS_EXPECTED;
}

int main(int argc, char **argv)
{
	struct options options = {0};
	const struct scenario **chosen;
	unsigned int count;

	if (!parse(argc, argv, &options)) {
		fprintf(stderr, "simfail: name scenarios, or --all or --list (see --help)\n");
		return EXIT_USAGE;
	}
	if (options.list) {
		if (options.json)
			list_json();
		else
			list_text();
		return EXIT_AS_EXPECTED;
	}
	count = options.all ? scenario_count : (unsigned int)(argc - optind);
	chosen = calloc(count, sizeof(*chosen));
	if (!chosen) {
		fprintf(stderr, "simfail: no memory\n");
		return EXIT_MISMATCH;
	}
	for (unsigned int i = 0; i < count; i++) {
		chosen[i] = options.all ? &scenarios[i] : scenario_named(argv[optind + (int)i]);
		if (!chosen[i]) {
			fprintf(stderr, "simfail: no scenario named %s (simfail --list)\n",
			        argv[optind + (int)i]);
			return EXIT_USAGE;
		}
	}
	return count == 1 ? run_here(chosen[0], &options) : run_several(chosen, count, &options);
}
