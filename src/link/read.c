/* SPDX-License-Identifier: MIT */
/* Messages out of a stream of bytes. */
#include "link/link.h"

struct rule {
	bool may_send[2]; /* by enum link_side */
	uint32_t least, most;
};

static const struct rule rules[] = {
	[LINK_NONE] = { { false, false }, 0, 0 },
#define LINK_TYPE(name, from_gate, from_keeper, least, most)                                       \
	[LINK_##name] = { { from_gate, from_keeper }, least, most },
#include "link/link.def"
#undef LINK_TYPE
};

void link_reader_init(struct link_reader *reader, enum link_side from)
{
	*reader = (struct link_reader){ .from = from };
	buf_init(&reader->payload, LINK_HEAD_MAX);
}

void link_reader_fini(struct link_reader *reader)
{
	buf_fini(&reader->payload);
}

static uint32_t get_u32(const unsigned char *at)
{
	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Of a carrier and its keeper. */
static bool is_remote(enum link_type type)
{
	return type == LINK_TOKEN || type == LINK_NOTICE || type == LINK_BYE;
}

/* What belongs to no exchange: also what the keeper says before there is any. */
static bool is_of_link(enum link_type type)
{
	return type == LINK_HELLO || type == LINK_TUNNELS || type == LINK_NAMES || is_remote(type);
}

/* Collects the header; true when it is whole and obeys the table. */
static bool read_header(struct link_reader *reader, struct bytes *input)
{
	const unsigned char *header = reader->header;
	size_t len = sizeof(reader->header) - reader->header_len;
	const struct rule *rule;
	struct bytes part;

	part = bytes_take(input, input->len < len ? input->len : len);
	memcpy(reader->header + reader->header_len, part.data, part.len);
	reader->header_len += part.len;
	if (reader->header_len < sizeof(reader->header))
		return true;
	reader->exchange = get_u32(header + 4);
	reader->left = get_u32(header + 8);
	reader->payload.len = 0;
	if (header[0] >= ARRAY_LEN(rules) || header[1] || header[2] || header[3])
		return false;
	reader->type = (enum link_type)header[0];
	rule = &rules[reader->type];
	return rule->may_send[reader->from] && reader->left >= rule->least &&
	       reader->left <= rule->most && (reader->exchange == 0) == is_of_link(reader->type);
}

static bool has_header(const struct link_reader *reader)
{
	return reader->header_len == sizeof(reader->header);
}

/* Whether the payload is passed on as it comes. */
static bool comes_in_pieces(const struct link_reader *reader)
{
	return reader->type == LINK_DATA || (reader->is_carrier && !is_remote(reader->type));
}

/* Takes of the payload what is there. */
static enum link_event read_payload(struct link_reader *reader, struct bytes *input,
				    struct bytes *ret_payload)
{
	struct bytes part = bytes_take(input,
				       input->len < reader->left ? input->len : reader->left);

	reader->left -= (uint32_t)part.len;
	if (reader->left == 0)
		reader->header_len = 0; /* the next byte begins a message */
	if (comes_in_pieces(reader)) {
		*ret_payload = part;
		return part.len ? LINK_PIECE : LINK_NEEDS_MORE;
	}
	buf_add(&reader->payload, part.data, part.len);
	if (reader->left > 0)
		return LINK_NEEDS_MORE;
	*ret_payload = (struct bytes){ reader->payload.data, reader->payload.len };
	return LINK_MESSAGE;
}

/* A carrier copies the header as well, once it is whole and known to be right. */
static enum link_event copy_header(struct link_reader *reader, struct bytes *ret_payload)
{
	*ret_payload = (struct bytes){ (const char *)reader->header, sizeof(reader->header) };
	if (reader->left == 0)
		reader->header_len = 0;
	return LINK_PIECE;
}

enum link_event link_read(struct link_reader *reader, struct bytes *input,
			  struct bytes *ret_payload)
{
	bool had_header = has_header(reader);

	if (!reader->is_broken && !had_header && input->len > 0)
		reader->is_broken = !read_header(reader, input);
	if (reader->is_broken)
		return LINK_BROKEN;
	if (!had_header && has_header(reader) && reader->is_carrier && comes_in_pieces(reader))
		return copy_header(reader, ret_payload);
	/* A message without a payload is whole with its header. */
	if (!has_header(reader) || (input->len == 0 && reader->left > 0))
		return LINK_NEEDS_MORE;
	return read_payload(reader, input, ret_payload);
}
