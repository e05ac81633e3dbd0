/* SPDX-License-Identifier: MIT */
/* One pattern, searched for as Knuth, Morris and Pratt have it where pieces meet. */
#include "keeper/scrub.h"

#include <stdlib.h>

#include "base/die.h"

struct scrub_pattern {
	struct bytes text;
	char *stars;
	size_t fallback[]; /* of a match of n bytes: the longest shorter one it ends with */
};

struct scrub_pattern *scrub_pattern_new(const struct secret *secret)
{
	struct bytes text = secret_get(secret);
	struct scrub_pattern *pattern = calloc(1,
					       sizeof(*pattern) + (text.len + 1) * sizeof(size_t));

	if (!pattern)
		die_no_memory();
	pattern->text = text;
	pattern->stars = malloc(text.len);
	if (!pattern->stars)
		die_no_memory();
	memset(pattern->stars, '*', text.len);
	for (size_t i = 1, matched = 0; i < text.len; i++) {
		while (matched > 0 && text.data[i] != text.data[matched])
			matched = pattern->fallback[matched];
		if (text.data[i] == text.data[matched])
			matched++;
		pattern->fallback[i + 1] = matched;
	}
	return pattern;
}

void scrub_pattern_free(struct scrub_pattern *pattern)
{
	if (!pattern)
		return;
	free(pattern->stars);
	free(pattern);
}

bool scrub_is_in(const struct scrub_pattern *pattern, struct bytes text)
{
	return pattern && text.len >= pattern->text.len &&
	       memmem(text.data, text.len, pattern->text.data, pattern->text.len);
}

static void emit_some(struct bytes data, scrub_emit *emit, void *owner)
{
	if (data.len > 0)
		emit(owner, data);
}

/* Goes on with a match that has begun; what turns out not to be one goes out. */
static void go_on(struct scrub *scrub, const struct scrub_pattern *pattern, struct bytes *data,
		  scrub_emit *emit, void *owner)
{
	while (data->len > 0 && scrub->held > 0) {
		size_t held = scrub->held;

		while (held > 0 && data->data[0] != pattern->text.data[held])
			held = pattern->fallback[held];
		emit_some((struct bytes){ pattern->text.data, scrub->held - held }, emit, owner);
		scrub->held = held;
		if (held == 0 && data->data[0] != pattern->text.data[0])
			return;
		scrub->held++;
		bytes_take(data, 1);
		if (scrub->held == pattern->text.len) {
			scrub->held = 0;
			emit_some((struct bytes){ pattern->stars, pattern->text.len }, emit, owner);
		}
	}
}

/* How many bytes at the end could begin the secret. */
static size_t find_beginning(const struct scrub_pattern *pattern, struct bytes data)
{
	size_t matched = 0, start = 0;

	if (data.len >= pattern->text.len)
		start = data.len - pattern->text.len + 1;
	for (size_t i = start; i < data.len; i++) {
		while (matched > 0 && data.data[i] != pattern->text.data[matched])
			matched = pattern->fallback[matched];
		if (data.data[i] == pattern->text.data[matched])
			matched++;
	}
	return matched;
}

void scrub_push(struct scrub *scrub, const struct scrub_pattern *pattern, struct bytes data,
		scrub_emit *emit, void *owner)
{
	const char *at;

	if (!pattern) {
		emit_some(data, emit, owner);
		return;
	}
	go_on(scrub, pattern, &data, emit, owner);
	while (data.len >= pattern->text.len &&
	       (at = memmem(data.data, data.len, pattern->text.data, pattern->text.len))) {
		emit_some(bytes_take(&data, (size_t)(at - data.data)), emit, owner);
		emit_some((struct bytes){ pattern->stars, pattern->text.len }, emit, owner);
		bytes_take(&data, pattern->text.len);
	}
	if (data.len == 0)
		return;
	scrub->held = find_beginning(pattern, data);
	data.len -= scrub->held;
	emit_some(data, emit, owner);
}

void scrub_finish(struct scrub *scrub, const struct scrub_pattern *pattern, scrub_emit *emit,
		  void *owner)
{
	if (pattern)
		emit_some((struct bytes){ pattern->text.data, scrub->held }, emit, owner);
	scrub->held = 0;
}
