/* SPDX-License-Identifier: MIT */
/* How table.c writes what fails: CALL, errno and count in brackets, up to three a outcome. */
#ifndef SIMFAIL_OUTCOME_H
#define SIMFAIL_OUTCOME_H

/* Nothing fails; one call fails once; several fail, the first being the culprit; one of two
 * outcomes. */
#define NOTHING_FAILS      .outcomes = {{.when = "always"}}, .outcome_count = 1
#define FAILS(call, error) FAILS_THEN((call, error, 1))
#define FAILS_THEN(...)    .outcomes = {OUTCOME("always", __VA_ARGS__)}, .outcome_count = 1
#define EITHER(a, b)       .outcomes = {a, b}, .outcome_count = 2

#define OUTCOME(text, ...)                                                                         \
	{.when = text, .failures = {FAILURES(__VA_ARGS__)}, .failure_count = COUNT(__VA_ARGS__)}
#define FAILURE(call, error, count) {CALL_##call, error, count}
#define COUNT(...)                  COUNT_(__VA_ARGS__, 3, 2, 1, 0)
#define COUNT_(a, b, c, n, ...)     n
#define FAILURES(...)               FAILURES_(COUNT(__VA_ARGS__), __VA_ARGS__)
#define FAILURES_(n, ...)           FAILURES__(n, __VA_ARGS__)
#define FAILURES__(n, ...)          FAILURES_##n(__VA_ARGS__)
#define FAILURES_1(a)               FAILURE a
#define FAILURES_2(a, b)            FAILURE a, FAILURE b
#define FAILURES_3(a, b, c)         FAILURE a, FAILURE b, FAILURE c

#endif
