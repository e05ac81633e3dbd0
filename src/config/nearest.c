/* SPDX-License-Identifier: MIT */
/* The likeness of short words. */
#include "config/nearest.h"

#include "base/attr.h"

void nearest_init(struct nearest *nearest, struct bytes word)
{
	/* Farther away than about a third of the word is no likeness. */
	*nearest = (struct nearest){ .word = word, .distance = (word.len + 2) / 3 + 1 };
}

/* The number of single-letter changes between two short words, by the usual recurrence. */
static size_t distance(struct bytes a, struct bytes b)
{
	size_t row[32];

	if (a.len >= ARRAY_LEN(row) || b.len >= ARRAY_LEN(row))
		return SIZE_MAX;
	for (size_t j = 0; j <= b.len; j++)
		row[j] = j;
	for (size_t i = 1; i <= a.len; i++) {
		size_t corner = row[0];

		row[0] = i;
		for (size_t j = 1; j <= b.len; j++) {
			size_t best = corner + (a.data[i - 1] != b.data[j - 1]);

			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			corner = row[j];
			row[j] = best;
		}
	}
	return row[b.len];
}

void nearest_try(struct nearest *nearest, const char *candidate)
{
	size_t d = distance(nearest->word, bytes_of(candidate));

	if (d < nearest->distance) {
		nearest->distance = d;
		nearest->found = candidate;
	}
}
