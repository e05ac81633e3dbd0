/* SPDX-License-Identifier: MIT */
/* What automaton.h does, done the slow way: every pattern tried at every place. */
#ifndef SUPPORT_REPLACE_SLOWLY_H
#define SUPPORT_REPLACE_SLOWLY_H

#include "base/buf.h"
#include "keeper/automaton.h"

/* The longest pattern that the text begins with; of equal ones the first. */
static inline const struct pattern *find_longest(const struct pattern *patterns, size_t count,
						 struct bytes text)
{
	const struct pattern *longest = NULL;

	for (size_t i = 0; i < count; i++) {
		struct bytes pattern = patterns[i].text;

		if (pattern.len <= text.len && memcmp(pattern.data, text.data, pattern.len) == 0 &&
		    (!longest || pattern.len > longest->text.len))
			longest = &patterns[i];
	}
	return longest;
}

static inline void replace_slowly(const struct pattern *patterns, size_t count, struct bytes text,
				  struct buf *out)
{
	while (text.len > 0) {
		const struct pattern *found = find_longest(patterns, count, text);

		if (found)
			buf_add(out, found->replacement.data, found->replacement.len);
		else
			buf_add(out, text.data, 1);
		bytes_take(&text, found ? found->text.len : 1);
	}
}

/* How many bytes at the end could begin a match that is not decided yet. */
static inline size_t count_undecided(const struct pattern *patterns, size_t count,
				     struct bytes text)
{
	for (; text.len > 0;) {
		const struct pattern *found = find_longest(patterns, count, text);

		for (size_t i = 0; i < count; i++)
			if (patterns[i].text.len > text.len &&
			    memcmp(patterns[i].text.data, text.data, text.len) == 0)
				return text.len;
		bytes_take(&text, found ? found->text.len : 1);
	}
	return 0;
}

#endif
