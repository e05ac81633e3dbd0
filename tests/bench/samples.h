/* SPDX-License-Identifier: MIT */
/* How long each of many things took, and what that comes to, as a line of JSON. */
#ifndef BENCH_SAMPLES_H
#define BENCH_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

struct samples {
	uint64_t *ns;
	size_t count, size;
	size_t errors; /* what did not work is not among them */
};

void samples_add(struct samples *samples, uint64_t ns);

/* {"WHAT": how many, "seconds": …, "errors": …, "p50_us": …, "p99_us": …}; sorts them. */
void samples_print(struct samples *samples, const char *what, double seconds);

/* Waits for a line on the standard input, or its end. */
void wait_for_input(void);

/* Says that all is ready, and waits likewise. */
void wait_to_begin(void);

#endif
