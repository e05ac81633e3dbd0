/* SPDX-License-Identifier: MIT */
/* One read or one write per turn, so that a slow reader delays nothing else. */
#include "sandbox/relay.h"

#include <errno.h>

#include "base/utf8.h"

#define END_OF_TEXT 4 /* Control-D */

struct pollfd relay_want(const struct relay *relay)
{
	if (relay->end > relay->start)
		return (struct pollfd){ .fd = relay->to, .events = POLLOUT };
	return (struct pollfd){ .fd = relay->from, .events = POLLIN };
}

void relay_end(struct relay *relay)
{
	if (relay->owns_from)
		close_fd(&relay->from);
	relay->from = -1;
	if (relay->closes_to)
		close_fd(&relay->to);
	relay->start = relay->end = 0;
}

/* How much of a chunk the budget lets through. */
static size_t spend(struct budget *budget, const char *bytes, size_t len)
{
	size_t allowed = len;

	if (!budget || !budget->is_limited)
		return len;
	if (allowed > budget->left) {
		/* Not in the middle of a character; what is dropped, is dropped for good. */
		allowed = budget->is_exceeded ? 0 : utf8_cut(bytes, budget->left);
		budget->is_exceeded = true;
		budget->left = 0;
		return allowed;
	}
	budget->left -= allowed;
	return allowed;
}

static void take_in(struct relay *relay)
{
	ssize_t n = read(relay->from, relay->chunk, sizeof(relay->chunk));
	size_t allowed;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n == 0 && relay->sends_eof) {
		relay->sends_eof = false;
		relay->chunk[0] = END_OF_TEXT;
		relay->start = 0;
		relay->end = 1;
		return;
	}
	if (n <= 0) { /* a terminal whose other side is closed says EIO */
		relay_end(relay);
		return;
	}
	allowed = spend(relay->budget, relay->chunk, (size_t)n);
	if (relay->into) {
		buf_add(relay->into, relay->chunk, allowed);
		return;
	}
	relay->start = 0;
	relay->end = allowed;
}

static void give_out(struct relay *relay)
{
	size_t len = relay->end - relay->start;
	ssize_t n = write(relay->to, relay->chunk + relay->start,
			  len < RELAY_WRITE_MAX ? len : RELAY_WRITE_MAX);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n < 0) /* nobody reads any more: the writer shall notice */
		relay_end(relay);
	else
		relay->start += (size_t)n;
}

void relay_move(struct relay *relay)
{
	if (relay->end > relay->start)
		give_out(relay);
	else
		take_in(relay);
}
