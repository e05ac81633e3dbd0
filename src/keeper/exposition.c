/* SPDX-License-Identifier: MIT */
/* The exposition format: comments with help and type, then a line for each sample. */
#include "keeper/exposition.h"

/* A line end would begin another sample, a quote would end a label. */
static void add_escaped(struct buf *out, const char *text, bool is_quoted)
{
	for (; *text; text++) {
		if (*text == '\n')
			buf_add_text(out, "\\n");
		else if (*text == '\\')
			buf_add_text(out, "\\\\");
		else if (*text == '"' && is_quoted)
			buf_add_text(out, "\\\"");
		else
			buf_add(out, text, 1);
	}
}

void exposition_begin(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_add_text(out, "# HELP ");
	buf_add_text(out, name);
	buf_add_text(out, " ");
	add_escaped(out, help, false);
	buf_add_text(out, "\n# TYPE ");
	buf_add_text(out, name);
	buf_add_text(out, " ");
	buf_add_text(out, type);
	buf_add_text(out, "\n");
}

void exposition_add_decimal(struct buf *out, uint64_t value, uint64_t unit)
{
	uint64_t rest = value % unit;

	buf_add_number(out, value / unit);
	if (rest > 0)
		buf_add_text(out, ".");
	for (; rest > 0; rest = rest * 10 % unit)
		buf_add_number(out, rest * 10 / unit);
}

static void add_labels(struct buf *out, const struct exposition_label *labels, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		buf_add_text(out, i == 0 ? "{" : ",");
		buf_add_text(out, labels[i].name);
		buf_add_text(out, "=\"");
		add_escaped(out, labels[i].value, true);
		buf_add_text(out, "\"");
	}
	if (count > 0)
		buf_add_text(out, "}");
}

void exposition_add(struct buf *out, const char *name, const char *suffix,
		    const struct exposition_label *labels, size_t label_count, uint64_t value,
		    uint64_t unit)
{
	buf_add_text(out, name);
	buf_add_text(out, suffix);
	add_labels(out, labels, label_count);
	buf_add_text(out, " ");
	exposition_add_decimal(out, value, unit);
	buf_add_text(out, "\n");
}
