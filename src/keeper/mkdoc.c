/* SPDX-License-Identifier: MIT */
/* A build tool: the keeper's metrics and log as pages for people, from their tables. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* ---- metrics ---- */

#define SET(set, label)         static const char *const values_of_##set[] = { label,
#define VALUE(set, value, text) text,
#define END_SET(set)                                                                               \
	NULL                                                                                       \
	}                                                                                          \
	;
// clang-format off
#include "keeper/metrics.def"
// clang-format on

/* A set begins with its label. One of two with the same text is enough, and so is one such row. */
static void print_values(const char *name, const char *const *set)
{
	static const char *const *last;

	printf("| `%s` | `%s` | %s", name, set[0], set == last ? "the same" : "");
	for (size_t i = 1; set[i] && set != last; i++) {
		bool is_repeated = false;

		for (size_t k = 1; k < i; k++)
			is_repeated = is_repeated || strcmp(set[k], set[i]) == 0;
		if (!is_repeated)
			printf("%s`%s`", i == 1 ? "" : ", ", set[i]);
	}
	printf(" |\n");
	last = set;
}

static void print_row(const char *name, const char *type, const char *help, const char *const *set,
		      const char *const *set2)
{
	printf("| `%s` | %s | ", name, type);
	if (set)
		printf("`%s`", set[0]);
	if (set2)
		printf(", `%s`", set2[0]);
	printf(" | %s |\n", help);
}

static void print_metrics(void)
{
	printf("# Metrics\n\n"
	       "The admin socket of `warder keeper` answers `GET /metrics` in the text format of "
	       "Prometheus, version\n0.0.4. What a label can be is fixed when the program is "
	       "built: no run, account, host or model is ever\none, nor is a secret.\n\n"
	       "| name | type | labels | meaning |\n|---|---|---|---|\n"
	       "| `warder_build_info` | gauge | `version` | The version of the program. |\n");
#define COUNTER(field, name, unit, help)   print_row(name, "counter", help, NULL, NULL);
#define GAUGE(field, name, unit, help)     print_row(name, "gauge", help, NULL, NULL);
#define COUNTER_BY(field, name, set, help) print_row(name, "counter", help, values_of_##set, NULL);
#define COUNTER_BY_TWO(field, name, set, set2, help)                                               \
	print_row(name, "counter", help, values_of_##set, values_of_##set2);
#define HISTOGRAM(field, name, help) print_row(name, "histogram", help, NULL, NULL);
#include "keeper/metrics.def"
	printf("\n## Labels\n\n| of | label | values |\n|---|---|---|\n");
#define COUNTER(field, name, unit, help)
#define GAUGE(field, name, unit, help)
#define COUNTER_BY(field, name, set, help) print_values(name, values_of_##set);
#define COUNTER_BY_TWO(field, name, set, set2, help)                                               \
	print_values(name, values_of_##set);                                                       \
	print_values(name, values_of_##set2);
#define HISTOGRAM(field, name, help)
#include "keeper/metrics.def"
}

/* ---- the log ---- */

static void print_most(unsigned int most)
{
	if (most)
		printf("%u |\n", most);
	else
		printf("any |\n");
}

static void print_log(void)
{
	printf("# The keeper's log\n\n"
	       "`warder keeper` writes one line per event to standard error: text, with "
	       "`key=value` "
	       "after time, level and\nevent, or with `--log json` a JSON object. It is for "
	       "whoever "
	       "operates the keeper; what runs did is in the\n[audit log](audit.md). A line that "
	       "is "
	       "not taken at once is dropped and counted: nothing waits for the log. It\nnever "
	       "holds "
	       "a header value, a body or a secret.\n\n"
	       "| key | type | meaning |\n|---|---|---|\n"
	       "| `time` | string | when, UTC, as RFC 3339 has it |\n"
	       "| `level` | string | `info`, `warn` or `error` |\n"
	       "| `event` | string | one of those below |\n");
#define TEXT(field, key, most, help) printf("| `" key "` | string | " help " |\n");
#define NUMBER(field, key, help)     printf("| `" key "` | number | " help " |\n");
#include "keeper/notices.def"
	printf("\nKeys that do not apply are left out. Texts are cut off at a fixed length.\n\n"
	       "| event | level | meaning | lines in a second |\n|---|---|---|---|\n");
#define INFO  "info"
#define WARN  "warn"
#define ERROR "error"
#define NOTICE(NAME, name, LEVEL, most, help)                                                      \
	printf("| `" #name "` | " LEVEL " | " help " | ");                                         \
	print_most(most);
#include "keeper/notices.def"
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "metrics") == 0)
		print_metrics();
	else if (argc == 2 && strcmp(argv[1], "log") == 0)
		print_log();
	else
		return 2;
	return fflush(stdout) == EOF;
}
