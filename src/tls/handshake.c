/* SPDX-License-Identifier: MIT */
/* Tried whenever the socket is ready, until it is done, fails, or its time is up. */
#include "tls/handshake.h"

#include <errno.h>

#include "tls/tls_stream.h"

static void stop(struct handshake *handshake)
{
	loop_remove(handshake->loop, &handshake->source);
	loop_cancel(handshake->loop, &handshake->deadline);
}

void handshake_cancel(struct handshake *handshake)
{
	stop(handshake);
	stream_close(&handshake->stream);
}

static void fail(struct handshake *handshake, int code, uint64_t now_ms)
{
	stop(handshake);
	handshake->ops->on_failed(handshake, code, now_ms);
}

static void on_deadline(struct loop_timer *timer, uint64_t now_ms)
{
	struct handshake *handshake = OWNER_OF(timer, struct handshake, deadline);

	fail(handshake, handshake->code ? handshake->code : ETIMEDOUT, now_ms);
}

static void on_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct handshake *handshake = OWNER_OF(source, struct handshake, source);
	SSL *ssl = handshake->stream.state;
	int result;
	ssize_t r;

	(void)ready;
	tls_stream_forget_errors();
	result = SSL_do_handshake(ssl);
	if (result == 1) {
		handshake->stream.has_pending = SSL_has_pending(ssl) != 0;
		stop(handshake);
		handshake->ops->on_done(handshake, now_ms);
		return;
	}
	r = tls_stream_failed(&handshake->stream, result);
	if (r == -EAGAIN) {
		r = loop_change(handshake->loop, source, handshake->stream.waits_for);
		if (r == 0)
			return;
	}
	fail(handshake, r == 0 ? ECONNRESET : (int)-r, now_ms);
}

void handshake_start(struct handshake *handshake, int code, uint64_t timeout_ms, uint64_t now_ms)
{
	handshake->source = (struct loop_source){ .fd = -1, .on_ready = on_ready };
	handshake->deadline.on_due = on_deadline;
	/* It can be written to: the first turn begins. */
	if (code == 0)
		code = -loop_add(handshake->loop, &handshake->source, handshake->stream.fd,
				 LOOP_WRITE);
	handshake->code = code;
	loop_set_timer(handshake->loop, &handshake->deadline, code ? now_ms : now_ms + timeout_ms);
}

bool handshake_alpn(const struct handshake *handshake, unsigned int set, enum tls_alpn *ret_alpn)
{
	const unsigned char *chosen;
	unsigned int len;

	SSL_get0_alpn_selected(handshake->stream.state, &chosen, &len);
	*ret_alpn = tls_alpn_find((struct bytes){ (const char *)chosen, len });
	return len == 0 || (*ret_alpn & set) != 0;
}
