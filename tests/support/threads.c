/* SPDX-License-Identifier: MIT */
/*
 * Runs sandboxes from many threads of a program that allocates all the time, so that
 * a child that allocated, or waited for a lock another thread held, would hang.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <warder.h>

#define RUNNERS 8
#define RUNS    12
#define NOISE   2

static atomic_bool is_over;
static atomic_int failures;

static void *make_noise(void *data)
{
	(void)data;
	while (!is_over) {
		void *volatile p = malloc((size_t)rand() % 10000 + 1);

		free(p);
	}
	return NULL;
}

static void *run_many(void *data)
{
	const char *workspace = data;

	for (int i = 0; i < RUNS; i++) {
		const char *const argv[] = { "sh", "-c", "echo $RUN_ID; exit 5", NULL };
		struct warder_spec spec = WARDER_SPEC_INIT;
		struct warder_result result;

		spec.workspace = workspace;
		spec.argv = argv;
		spec.limits.timeout_ms = 20000;
		if (warder_run_once(&spec, &result) < 0 || result.exit_code != 5 ||
		    strncmp(result.out, result.run_id, strlen(result.run_id)) != 0) {
			fprintf(stderr, "run %s: exit %d, %s\n", result.run_id, result.exit_code,
				result.message);
			failures++;
		}
		warder_result_clear(&result);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t runners[RUNNERS], noise[NOISE];

	if (argc != 2)
		return 2;
	for (int i = 0; i < NOISE; i++)
		pthread_create(&noise[i], NULL, make_noise, NULL);
	for (int i = 0; i < RUNNERS; i++)
		pthread_create(&runners[i], NULL, run_many, argv[1]);
	for (int i = 0; i < RUNNERS; i++)
		pthread_join(runners[i], NULL);
	is_over = true;
	for (int i = 0; i < NOISE; i++)
		pthread_join(noise[i], NULL);
	printf("%d runs, %d failures\n", RUNNERS * RUNS, (int)failures);
	return failures != 0;
}
