/* SPDX-License-Identifier: MIT */
/*
 * The reader of spend logs on any bytes: the same however they are cut, and as many rows as a
 * parser of JSON finds in the list.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "keeper/spend_rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Everything that a row says, to be compared. */
static int on_row(void *owner, const struct spend_row *row, struct err *err)
{
	const char *const texts[] = { row->call_id, row->request_id, row->end_user, row->run_id,
				      row->model };
	char run_id[RUNID_MAX + 1];
	uint32_t attempt;

	(void)err;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		if (strlen(texts[i]) >= SPEND_TEXT_MAX)
			abort();
		buf_add(owner, texts[i], strlen(texts[i]) + 1);
	}
	if (spend_row_run(row, run_id, &attempt) &&
	    (!runid_is_valid(run_id) || !spend_row_is_of(row, run_id, attempt)))
		abort();
	buf_add_number(owner, row->cost);
	buf_add_number(owner, row->start_ms);
	buf_add_number(owner, row->attempt);
	return 0;
}

static int read_rows(struct bytes input, size_t piece, struct buf *out, uint64_t *ret_count)
{
	struct spend_rows *rows = spend_rows_new(on_row, out);
	struct err err;
	int r = 0;

	while (r == 0 && input.len > 0)
		r = spend_rows_push(rows, bytes_take(&input, input.len < piece ? input.len : piece),
				    &err);
	if (r == 0)
		r = spend_rows_end(rows, &err);
	*ret_count = spend_rows_count(rows);
	spend_rows_free(rows);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole, pieces;
	struct bytes input;
	uint64_t count, count_of_pieces;
	json_t *json;
	int r;

	if (size == 0)
		return 0;
	input = (struct bytes){ (const char *)data + 1, size - 1 };
	buf_init(&whole, 1 << 20);
	buf_init(&pieces, 1 << 20);
	r = read_rows(input, size, &whole, &count);
	if (read_rows(input, data[0] % 9 + 1, &pieces, &count_of_pieces) != r ||
	    count != count_of_pieces || whole.len != pieces.len ||
	    (whole.len > 0 && memcmp(whole.data, pieces.data, whole.len) != 0))
		abort();
	json = json_loadb(input.data, input.len, JSON_ALLOW_NUL, NULL);
	if (r == 0 && json_is_array(json) && json_array_size(json) != count)
		abort();
	json_decref(json);
	buf_fini(&whole);
	buf_fini(&pieces);
	return 0;
}
