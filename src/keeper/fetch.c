/* SPDX-License-Identifier: MIT */
/*
 * One GET.
 *
 *   connect ──▶ (handshake) ──▶ write the request, read the reply ──▶ on_done
 *
 * The request is the only place where the key is copied to; it is wiped as soon as it is sent.
 */
#include "keeper/fetch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/die.h"
#include "http/h1_read.h"
#include "http/h1_write.h"

#define INPUT_SIZE   65536
#define NAME_MAX_LEN 320 /* of an authority: a host and a port */

struct fetch {
	struct loop_deferred deferred; /* first: freed at the end of a turn */
	struct loop *loop;
	struct tls_client *tls; /* NULL: without TLS */
	const struct fetch_ops *ops;
	void *owner;
	struct connect *connect;         /* or NULL */
	struct tls_handshake *handshake; /* or NULL */
	struct stream stream;
	struct loop_source source;
	struct loop_timer deadline;
	uint64_t due_ms, timeout_ms, body_max, body_len;
	char *request; /* NULL when it is sent */
	size_t request_len, sent;
	bool is_over;
	struct h1_reader reader;
	struct h1_result result;
	char host[NAME_MAX_LEN + 1], authority[NAME_MAX_LEN + 1];
	char input[INPUT_SIZE];
};

/* ---- the end ---- */

static void wipe_request(struct fetch *fetch)
{
	if (fetch->request)
		explicit_bzero(fetch->request, fetch->request_len);
	free(fetch->request);
	fetch->request = NULL;
}

static void free_fetch(struct loop_deferred *deferred)
{
	struct fetch *fetch = (struct fetch *)(void *)deferred;

	h1_reader_fini(&fetch->reader);
	free(fetch);
}

void fetch_cancel(struct fetch *fetch)
{
	fetch->is_over = true;
	wipe_request(fetch);
	if (fetch->connect)
		connect_cancel(fetch->connect);
	if (fetch->handshake)
		tls_handshake_cancel(fetch->handshake);
	loop_cancel(fetch->loop, &fetch->deadline);
	loop_remove(fetch->loop, &fetch->source);
	stream_close(&fetch->stream);
	fetch->deferred.free = free_fetch;
	loop_defer(fetch->loop, &fetch->deferred);
}

static void finish(struct fetch *fetch, const struct err *err, uint64_t now_ms)
{
	fetch_cancel(fetch);
	fetch->ops->on_done(fetch->owner, err, now_ms);
}

static void fail(struct fetch *fetch, int code, const char *why, uint64_t now_ms)
{
	struct err err;

	err_say(&err, code, "ask '%s': %s", fetch->authority, why);
	finish(fetch, &err, now_ms);
}

static void on_deadline(struct loop_timer *timer, uint64_t now_ms)
{
	struct fetch *fetch = OWNER_OF(timer, struct fetch, deadline);
	char why[64];

	snprintf(why, sizeof(why), "no whole reply in %" PRIu64 " ms", fetch->timeout_ms);
	fail(fetch, ETIMEDOUT, why, now_ms);
}

/* ---- the reply ---- */

static int take_data(struct fetch *fetch, struct bytes data, struct err *err)
{
	fetch->body_len += data.len;
	if (fetch->body_len > fetch->body_max)
		return err_say(err, E2BIG, "ask '%s': the reply is larger than %" PRIu64 " bytes",
			       fetch->authority, fetch->body_max);
	return fetch->ops->on_data(fetch->owner, data, err);
}

static int take_head(struct fetch *fetch, const struct http_head *head, struct err *err)
{
	if (head->status == 101)
		return err_say(err, EPROTO, "ask '%s': it wants to speak another protocol",
			       fetch->authority);
	if (head->status >= 200)
		return fetch->ops->on_head(fetch->owner, head, err);
	h1_reader_next(&fetch->reader); /* the reply itself is still to come */
	return 0;
}

/* One event of what has come; false when there is no more in it, or nothing to go on with. */
static bool step(struct fetch *fetch, struct bytes *input, uint64_t now_ms)
{
	struct err err = { 0 };
	int r = 0;

	switch (h1_read(&fetch->reader, input, &fetch->result)) {
	case H1_HEAD:
		r = take_head(fetch, &fetch->result.head, &err);
		break;
	case H1_DATA:
		r = take_data(fetch, fetch->result.data, &err);
		break;
	case H1_END:
		finish(fetch, NULL, now_ms);
		return false;
	case H1_BROKEN:
		r = err_say(&err, EPROTO, "ask '%s': the reply is broken: %s", fetch->authority,
			    http_fault_info(fetch->reader.fault)->text);
		break;
	case H1_NEEDS_MORE:
		return false;
	}
	if (r < 0)
		finish(fetch, &err, now_ms);
	return r == 0;
}

static void on_input_end(struct fetch *fetch, ssize_t error, uint64_t now_ms)
{
	if (error == 0 && h1_read_end(&fetch->reader) == H1_END)
		finish(fetch, NULL, now_ms);
	else
		fail(fetch, EPROTO, "the connection ended before the reply was whole", now_ms);
}

static void read_reply(struct fetch *fetch, uint64_t now_ms)
{
	do {
		ssize_t n = stream_read(&fetch->stream, fetch->input, INPUT_SIZE);
		struct bytes input = { fetch->input, n > 0 ? (size_t)n : 0 };

		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			on_input_end(fetch, n, now_ms);
			return;
		}
		while (step(fetch, &input, now_ms))
			;
	} while (!fetch->is_over && fetch->stream.has_pending);
}

/* ---- the request ---- */

static void write_request(struct fetch *fetch)
{
	while (fetch->request && fetch->sent < fetch->request_len) {
		ssize_t n = stream_write(&fetch->stream, fetch->request + fetch->sent,
					 fetch->request_len - fetch->sent);

		if (n == -EAGAIN)
			return;
		if (n < 0)
			break; /* it may have answered before it closed: that is read first */
		fetch->sent += (size_t)n;
	}
	wipe_request(fetch);
}

static void on_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct fetch *fetch = OWNER_OF(source, struct fetch, source);

	/* TLS may have to write to read, and the other way round: both are tried. */
	(void)ready;
	write_request(fetch);
	read_reply(fetch, now_ms);
	if (!fetch->is_over &&
	    loop_change(fetch->loop, source,
			stream_interest(&fetch->stream, true, fetch->request != NULL)) < 0)
		die_no_memory(); /* nothing else can be wrong with it */
}

static void on_stream(struct fetch *fetch, const struct stream *stream, uint64_t now_ms)
{
	fetch->stream = *stream;
	fetch->source.on_ready = on_ready;
	if (loop_add(fetch->loop, &fetch->source, stream->fd, LOOP_READ | LOOP_WRITE) < 0)
		fail(fetch, ENOMEM, "it cannot be waited for", now_ms);
}

/* ---- the connection ---- */

static void on_handshake(void *owner, struct stream *stream, enum tls_alpn alpn,
			 const struct err *err, uint64_t now_ms)
{
	struct fetch *fetch = owner;

	(void)alpn; /* HTTP/1.1 is all that was offered */
	fetch->handshake = NULL;
	if (err)
		finish(fetch, err, now_ms);
	else
		on_stream(fetch, stream, now_ms);
}

static void on_connected(void *owner, int fd, const struct err *err, uint64_t now_ms)
{
	struct fetch *fetch = owner;
	uint64_t left_ms = fetch->due_ms > now_ms ? fetch->due_ms - now_ms : 1;
	struct stream stream;

	fetch->connect = NULL;
	if (fd < 0) {
		finish(fetch, err, now_ms);
	} else if (fetch->tls) {
		fetch->handshake = tls_handshake_start(fetch->tls, fetch->loop, fd, fetch->host,
						       TLS_ALPN_HTTP1, left_ms, now_ms,
						       on_handshake, fetch);
	} else {
		stream_init_plain(&stream, fd);
		on_stream(fetch, &stream, now_ms);
	}
}

/* In one piece of memory of the right size: a buffer that grows would leave copies of the key. */
static void format_request(struct fetch *fetch, const struct fetch_request *request)
{
	struct bytes key = request->key ? secret_get(request->key) : BYTES("");
	struct buf head;

	buf_init(&head, HTTP_HEAD_MAX);
	h1_write_request_line(&head, BYTES("GET"), request->target);
	h1_write_field(&head, BYTES("host"), bytes_of(request->authority));
	h1_write_field(&head, BYTES("user-agent"), BYTES("warder"));
	h1_write_field(&head, BYTES("accept"), BYTES("application/json"));
	h1_write_field(&head, BYTES("accept-encoding"), BYTES("identity"));
	h1_write_field(&head, BYTES("connection"), BYTES("close"));
	if (request->key) {
		buf_add_text(&head, request->key_header);
		buf_add_text(&head, ": ");
		buf_add_text(&head, request->key_prefix);
	}
	fetch->request_len = head.len + key.len + (request->key ? 4 : 2);
	fetch->request = malloc(fetch->request_len);
	if (!fetch->request)
		die_no_memory();
	memcpy(fetch->request, head.data, head.len);
	memcpy(fetch->request + head.len, key.data, key.len);
	memcpy(fetch->request + head.len + key.len, "\r\n\r\n", request->key ? 4 : 2);
	buf_fini(&head);
}

struct fetch *fetch_start(struct net *net, struct loop *loop, struct tls_client *tls,
			  const struct fetch_request *request, const struct fetch_ops *ops,
			  void *owner, uint64_t now_ms)
{
	struct fetch *fetch = calloc(1, sizeof(*fetch));

	if (!fetch)
		die_no_memory();
	fetch->loop = loop;
	fetch->tls = request->is_tls ? tls : NULL;
	fetch->ops = ops;
	fetch->owner = owner;
	fetch->source.fd = -1;
	fetch->timeout_ms = request->timeout_ms;
	fetch->due_ms = now_ms + request->timeout_ms;
	fetch->body_max = request->body_max;
	snprintf(fetch->host, sizeof(fetch->host), "%s", request->host);
	snprintf(fetch->authority, sizeof(fetch->authority), "%s", request->authority);
	h1_reader_init(&fetch->reader, true);
	format_request(fetch, request);
	fetch->deadline.on_due = on_deadline;
	loop_set_timer(loop, &fetch->deadline, fetch->due_ms);
	fetch->connect = connect_start(net, request->dial_host, request->dial_port,
				       request->timeout_ms, now_ms, on_connected, fetch);
	return fetch;
}
