/* SPDX-License-Identifier: MIT */
/*
 * What the keeper counts about itself, made from metrics.def: plain numbers in one struct, which
 * whoever has something to count adds to where it happens:
 *
 *	metrics->refusals[refusal]++;
 *	metrics->limited[METRICS_SCOPE_RUN][METRICS_LIMIT_RATE]++;
 *	metrics_observe(&metrics->exchange_seconds, (now_ms - start_ms) * 1000);
 *
 * No memory is allocated, nothing is locked, nothing here can fail.
 */
#ifndef KEEPER_METRICS_H
#define KEEPER_METRICS_H

#include <stdint.h>

#include "base/buf.h"
#include "base/money.h"

#define METRICS_TEXT_MAX ((size_t)64 * 1024) /* more than all of them are, however large */

/* The upper ends of a histogram's buckets, in microseconds; one more is for what is beyond. */
#define METRICS_BOUNDS                                                                             \
	100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000,     \
		2500000, 5000000, 10000000, 30000000, 60000000, 120000000, 300000000, 600000000
#define METRICS_BUCKETS (sizeof((uint32_t[]){ METRICS_BOUNDS }) / sizeof(uint32_t) + 1)

struct metrics_histogram {
	uint64_t buckets[METRICS_BUCKETS]; /* each its own; the exposition adds them up */
	uint64_t sum_us;
};

/* METRICS_KIND_LLM, … METRICS_KIND_COUNT and so on. */
#define SET(set, label)         enum {
#define VALUE(set, value, text) METRICS_##set##_##value,
#define END_SET(set)                                                                               \
	METRICS_##set##_COUNT                                                                      \
	}                                                                                          \
	;
// clang-format off
#include "keeper/metrics.def"
// clang-format on

struct metrics {
#define COUNTER(field, name, unit, help)   uint64_t field;
#define GAUGE(field, name, unit, help)     uint64_t field;
#define COUNTER_BY(field, name, set, help) uint64_t field[METRICS_##set##_COUNT];
#define COUNTER_BY_TWO(field, name, set, set2, help)                                               \
	uint64_t field[METRICS_##set##_COUNT][METRICS_##set2##_COUNT];
#define HISTOGRAM(field, name, help) struct metrics_histogram field;
#include "keeper/metrics.def"
};

/* Counts something that took so long. */
static inline void metrics_observe(struct metrics_histogram *histogram, uint64_t time_us)
{
	static const uint32_t bounds[] = { METRICS_BOUNDS };
	size_t i = 0;

	while (i < METRICS_BUCKETS - 1 && time_us > bounds[i])
		i++;
	histogram->buckets[i]++;
	histogram->sum_us += time_us;
}

/* Takes what the process uses into the numbers of the process. What cannot be read stays. */
void metrics_look_at_process(struct metrics *metrics);

/* All of them as text, in the exposition format of Prometheus. */
void metrics_format(const struct metrics *metrics, struct buf *out);

#endif
