/* SPDX-License-Identifier: MIT */
/* gRPC's length-prefixed messages. */
#include "keeper/grpc.h"

#include <errno.h>

bool grpc_is_type(struct bytes content_type)
{
	static const struct bytes name = BYTES("application/grpc");

	if (!bytes_has_prefix_nocase(content_type, name))
		return false;
	bytes_take(&content_type, name.len);
	return content_type.len == 0 || content_type.data[0] == '+' ||
	       content_type.data[0] == ';' || content_type.data[0] == ' ';
}

static size_t take_prefix(struct grpc *grpc, struct bytes data)
{
	size_t len = 0;

	while (len < data.len && grpc->prefix_len < GRPC_PREFIX_LEN)
		grpc->prefix[grpc->prefix_len++] = (unsigned char)data.data[len++];
	if (grpc->prefix_len == GRPC_PREFIX_LEN)
		grpc->left = (uint32_t)grpc->prefix[1] << 24 | (uint32_t)grpc->prefix[2] << 16 |
			     (uint32_t)grpc->prefix[3] << 8 | grpc->prefix[4];
	return len;
}

int grpc_take(struct grpc *grpc, struct bytes *data, struct bytes *ret_part, bool *ret_is_end)
{
	size_t len = 0, rest;

	if (grpc->prefix_len < GRPC_PREFIX_LEN)
		len = take_prefix(grpc, *data);
	if (grpc->prefix_len > 0 && grpc->prefix[0] != 0)
		return -EBADMSG;
	*ret_is_end = false;
	if (grpc->prefix_len == GRPC_PREFIX_LEN) {
		rest = data->len - len < grpc->left ? data->len - len : grpc->left;
		grpc->left -= (uint32_t)rest;
		len += rest;
		*ret_is_end = grpc->left == 0;
	}
	if (*ret_is_end)
		grpc->prefix_len = 0;
	*ret_part = bytes_take(data, len);
	return 0;
}
