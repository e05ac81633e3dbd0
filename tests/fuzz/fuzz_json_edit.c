/* SPDX-License-Identifier: MIT */
/*
 * The JSON edit on any bytes: the same however they are cut; what comes out is JSON in
 * which nothing is left to remove.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keeper/json_edit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct json_edit_rule rules[] = {
	{ NULL, "user" },
	{ "metadata", "user_id" },
	{ NULL, NULL },
};

static int edit(struct bytes input, size_t piece, struct buf *out)
{
	struct json_edit edit;
	int r = 0;

	json_edit_init(&edit, rules);
	while (r == 0 && input.len > 0)
		r = json_edit_push(&edit, bytes_take(&input, input.len < piece ? input.len : piece),
				   out);
	return r < 0 ? r : json_edit_finish(&edit);
}

static bool is_same(const struct buf *a, const struct buf *b)
{
	return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole, pieces, again;
	struct bytes input;
	int r;

	if (size == 0)
		return 0;
	input = (struct bytes){ (const char *)data + 1, size - 1 };
	buf_init(&whole, 1 << 20);
	buf_init(&pieces, 1 << 20);
	buf_init(&again, 1 << 20);
	r = edit(input, size, &whole);
	if (edit(input, data[0] % 9 + 1, &pieces) != r || (r == 0 && !is_same(&whole, &pieces)))
		abort();
	if (r == 0 &&
	    (edit((struct bytes){ whole.data ? whole.data : "", whole.len }, size, &again) != 0 ||
	     !is_same(&whole, &again)))
		abort();
	buf_fini(&whole);
	buf_fini(&pieces);
	buf_fini(&again);
	return 0;
}
