/* SPDX-License-Identifier: MIT */
/* Samples. */
#include "samples.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void samples_add(struct samples *samples, uint64_t ns)
{
	if (samples->count == samples->size) {
		samples->size = samples->size ? samples->size * 2 : 65536;
		samples->ns = realloc(samples->ns, samples->size * sizeof(*samples->ns));
		if (!samples->ns)
			err(1, "realloc");
	}
	samples->ns[samples->count++] = ns;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double quantile_us(const struct samples *samples, double q)
{
	if (samples->count == 0)
		return 0;
	return (double)samples->ns[(size_t)(q * (double)(samples->count - 1))] / 1000;
}

void samples_print(struct samples *samples, const char *what, double seconds)
{
	qsort(samples->ns, samples->count, sizeof(*samples->ns), compare);
	printf("{\"%s\": %zu, \"seconds\": %.6f, \"errors\": %zu, \"p50_us\": %.2f, "
	       "\"p99_us\": %.2f}\n",
	       what, samples->count, seconds, samples->errors, quantile_us(samples, 0.5),
	       quantile_us(samples, 0.99));
	fflush(stdout);
}

void wait_for_input(void)
{
	char byte = 0;

	while (byte != '\n')
		if (read(STDIN_FILENO, &byte, 1) <= 0)
			return;
}

void wait_to_begin(void)
{
	printf("{\"ready\": true}\n");
	fflush(stdout);
	wait_for_input();
}
