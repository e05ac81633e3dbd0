/* SPDX-License-Identifier: MIT */
/*
 * Just enough HTTP/1.1 for both ends of a benchmark: where a message ends. The other side is
 * ours or a proxy under test, so a head is trusted, and one read never holds two messages.
 */
#ifndef BENCH_MESSAGE_H
#define BENCH_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define MESSAGE_HEAD_MAX 4096

enum message_state {
	MESSAGE_HEAD,   /* its head is not complete */
	MESSAGE_BODY,   /* its head is; more of the body is to come */
	MESSAGE_DONE,   /* complete */
	MESSAGE_BROKEN, /* a head that is too long */
};

struct message {
	enum message_state state;
	size_t head_len;
	uint64_t body_left; /* without chunks */
	bool is_chunked;
	char tail[5];                    /* the last bytes of a chunked body, to see its end */
	char head[MESSAGE_HEAD_MAX + 1]; /* terminated once the state is past MESSAGE_HEAD */
};

void message_begin(struct message *message);

/* Takes all bytes of one read; returns the new state, which is in the message as well. */
enum message_state message_push(struct message *message, const char *data, size_t len);

static inline uint64_t clock_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

#endif
