/* SPDX-License-Identifier: MIT */
/*
 * The search for a cost on any bytes: the same however they are cut, and only where a parser of
 * JSON finds it.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>

#include "keeper/cost.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void find(struct cost *cost, struct bytes input, size_t piece)
{
	while (input.len > 0)
		cost_push(cost, bytes_take(&input, input.len < piece ? input.len : piece));
	if (cost->last[0])
		abort();
	cost_finish(cost);
	if (!memchr(cost->last, '\0', sizeof(cost->last)))
		abort();
}

/* What is in a string can be anything, so only what is found is looked for; and both ways where
 * no name can be written in two ways. */
static void compare(struct bytes input, const char *found)
{
	json_t *json = json_loadb(input.data, input.len, JSON_REJECT_DUPLICATES, NULL);
	const json_t *cost = json_object_get(json_object_get(json, "usage"), "cost");

	if (json && found[0] && !json_is_number(cost))
		abort();
	if (json_is_number(cost) && !found[0] && !memchr(input.data, '\\', input.len) &&
	    input.len < COST_MAX + sizeof("{\"usage\":{\"cost\":}}") - 1)
		abort();
	json_decref(json);
}

/* A body is an event's data, unless lines end in it. */
static void compare_event(struct bytes input, const char *found)
{
	struct cost cost = { .is_events = true };

	if (memchr(input.data, '\n', input.len) || memchr(input.data, '\r', input.len))
		return;
	cost_push(&cost, BYTES("data: "));
	cost_push(&cost, input);
	cost_push(&cost, BYTES("\n\n"));
	cost_finish(&cost);
	if (found[0] && cost.last[0] && strcmp(found, cost.last) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cost whole = { 0 }, pieces = { 0 };
	struct bytes input;

	if (size < 2)
		return 0;
	input = (struct bytes){ (const char *)data + 1, size - 1 };
	whole.is_events = pieces.is_events = data[0] >= 128;
	find(&whole, input, input.len);
	find(&pieces, input, data[0] % 9 + 1);
	if (strcmp(whole.last, pieces.last) != 0)
		abort();
	if (!whole.is_events) {
		compare(input, whole.last);
		compare_event(input, whole.last);
	}
	return 0;
}
