/* SPDX-License-Identifier: MIT */
/* Metrics as text, row by row as metrics.def has them. */
#include "keeper/metrics.h"

#include "keeper/exposition.h"
#include "sys/usage.h"

/* What a label can be: the texts of a set, and how many they are. */
struct label_set {
	const char *label;
	const char *const *values;
	size_t count;
};

#define SET(set, label)         static const char *const values_of_##set[] = {
#define VALUE(set, value, text) text,
#define END_SET(set)                                                                               \
	}                                                                                          \
	;
// clang-format off
#include "keeper/metrics.def"
// clang-format on

#define SET(set, label) static const struct label_set set_of_##set = { label, values_of_##set,
#define VALUE(set, value, text)
#define END_SET(set)                                                                               \
	METRICS_##set##_COUNT                                                                      \
	}                                                                                          \
	;
// clang-format off
#include "keeper/metrics.def"
// clang-format on

static void add_one(struct buf *out, const char *name, const char *type, const char *help,
		    uint64_t value, uint64_t unit)
{
	exposition_begin(out, name, type, help);
	exposition_add(out, name, "", NULL, 0, value, unit);
}

static bool is_repeated(const struct label_set *set, size_t place)
{
	for (size_t i = 0; i < place; i++)
		if (strcmp(set->values[i], set->values[place]) == 0)
			return true;
	return false;
}

/* Two values with one text are one sample: a second one of the same name would be an error. */
static uint64_t add_up(const struct label_set *set, size_t place, const uint64_t *values)
{
	uint64_t sum = values[place];

	for (size_t i = place + 1; i < set->count; i++)
		if (strcmp(set->values[i], set->values[place]) == 0)
			sum += values[i];
	return sum;
}

/* One sample per value of the last set; `labels` has what is before it, and room for it. */
static void add_set(struct buf *out, const char *name, struct exposition_label *labels,
		    size_t label_count, const struct label_set *set, const uint64_t *values)
{
	for (size_t i = 0; i < set->count; i++) {
		if (is_repeated(set, i))
			continue;
		labels[label_count] = (struct exposition_label){ set->label, set->values[i] };
		exposition_add(out, name, "", labels, label_count + 1, add_up(set, i, values), 1);
	}
}

static void add_by(struct buf *out, const char *name, const char *help, const struct label_set *set,
		   const uint64_t *values)
{
	struct exposition_label labels[1];

	exposition_begin(out, name, "counter", help);
	add_set(out, name, labels, 0, set, values);
}

static void add_by_two(struct buf *out, const char *name, const char *help,
		       const struct label_set *set, const struct label_set *set2,
		       const uint64_t *values)
{
	struct exposition_label labels[2];

	exposition_begin(out, name, "counter", help);
	for (size_t i = 0; i < set->count; i++) {
		labels[0] = (struct exposition_label){ set->label, set->values[i] };
		add_set(out, name, labels, 1, set2, values + i * set2->count);
	}
}

/* In the text, a bucket counts everything up to its upper end. */
static void add_histogram(struct buf *out, const char *name, const char *help,
			  const struct metrics_histogram *histogram)
{
	static const uint32_t bounds[] = { METRICS_BOUNDS };
	uint64_t count = 0;
	struct buf bound;

	exposition_begin(out, name, "histogram", help);
	buf_init(&bound, 32);
	for (size_t i = 0; i < METRICS_BUCKETS; i++) {
		struct exposition_label label = { "le", "+Inf" };

		if (i < METRICS_BUCKETS - 1) {
			bound.len = 0;
			exposition_add_decimal(&bound, bounds[i], 1000000);
			label.value = bound.data;
		}
		count += histogram->buckets[i];
		exposition_add(out, name, "_bucket", &label, 1, count, 1);
	}
	buf_fini(&bound);
	exposition_add(out, name, "_sum", NULL, 0, histogram->sum_us, 1000000);
	exposition_add(out, name, "_count", NULL, 0, count, 1);
}

static void add_build(struct buf *out)
{
	static const struct exposition_label version = { "version", WARDER_VERSION };

	exposition_begin(out, "warder_build_info", "gauge", "The version of the program.");
	exposition_add(out, "warder_build_info", "", &version, 1, 1, 1);
}

void metrics_format(const struct metrics *metrics, struct buf *out)
{
	add_build(out);
#define COUNTER(field, name, unit, help)   add_one(out, name, "counter", help, metrics->field, unit);
#define GAUGE(field, name, unit, help)     add_one(out, name, "gauge", help, metrics->field, unit);
#define COUNTER_BY(field, name, set, help) add_by(out, name, help, &set_of_##set, metrics->field);
#define COUNTER_BY_TWO(field, name, set, set2, help)                                               \
	add_by_two(out, name, help, &set_of_##set, &set_of_##set2, metrics->field[0]);
#define HISTOGRAM(field, name, help) add_histogram(out, name, help, &metrics->field);
#include "keeper/metrics.def"
}

void metrics_look_at_process(struct metrics *metrics)
{
	struct usage usage;

	if (usage_read(&usage) < 0)
		return;
	/* Once: whoever asks whether the process is still the same must not see it move. */
	if (metrics->start_time_ms == 0)
		metrics->start_time_ms = usage.start_time_ms;
	metrics->cpu_us = usage.cpu_us;
	metrics->resident_bytes = usage.resident_bytes;
	metrics->open_fds = usage.open_fds;
	metrics->max_fds = usage.max_fds;
}
