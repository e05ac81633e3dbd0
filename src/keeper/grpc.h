/* SPDX-License-Identifier: MIT */
/*
 * Where the messages of a gRPC stream end. Each has a flag and a length before it; a search that
 * holds the end of a piece back may let go of it there, and must, because the other side waits
 * for the whole message before it says more.
 */
#ifndef KEEPER_GRPC_H
#define KEEPER_GRPC_H

#include "base/attr.h"
#include "base/bytes.h"

#define GRPC_PREFIX_LEN 5

struct grpc {
	unsigned char prefix[GRPC_PREFIX_LEN];
	size_t prefix_len;
	uint32_t left; /* of the message */
};

/* Whether a Content-Type says that such a stream follows. */
bool grpc_is_type(struct bytes content_type);

/*
 * Takes from the front of *data what belongs to the message under way. -EBADMSG for one that is
 * compressed, and so cannot be searched.
 */
int grpc_take(struct grpc *grpc, struct bytes *data, struct bytes *ret_part,
	      bool *ret_is_end) must_check;

#endif
