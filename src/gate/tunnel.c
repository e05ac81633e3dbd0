/* SPDX-License-Identifier: MIT */
/* A connection that is carried as it is. */
#include "gate/tunnel.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/die.h"
#include "gate/call.h"
#include "gate/connection.h"
#include "sys/fd.h"

#define TUNNEL_IN_MAX  65536 /* of what has come and waits for credit */
#define TUNNEL_OUT_MAX ((size_t)2 * LINK_CREDIT_FIRST)

struct tunnel {
	struct connection connection; /* first */
	struct call call;
	struct buf in, out;
	size_t out_start;
	bool has_input_ended; /* the agent has said all */
	bool is_reply_over;   /* the host has */
	bool is_shut;         /* ... and the agent knows */
};

static const struct carrier carrier;

/* ---- opening and closing ---- */

static struct tunnel *tunnel_at(const struct connection *connection)
{
	return (struct tunnel *)(void *)connection; /* its first member */
}

static void free_tunnel(struct connection *connection)
{
	struct tunnel *tunnel = tunnel_at(connection);

	buf_fini(&tunnel->in);
	buf_fini(&tunnel->out);
	free(tunnel);
}

static bool is_open(const struct tunnel *tunnel)
{
	return connection_is_open(&tunnel->connection);
}

/* Unless both sides have said all, the agent sees an error. */
static void close_tunnel(struct tunnel *tunnel)
{
	if (!is_open(tunnel))
		return;
	call_abort(&tunnel->call);
	if (!tunnel->is_reply_over)
		fd_set_abrupt(tunnel->connection.source.fd, true);
	connection_close(&tunnel->connection);
}

static void reset(struct connection *connection)
{
	close_tunnel(tunnel_at(connection));
}

/* ---- moving bytes ---- */

static size_t out_len(const struct tunnel *tunnel)
{
	return tunnel->out.len - tunnel->out_start;
}

static bool wants_input(const struct tunnel *tunnel)
{
	return !tunnel->has_input_ended && tunnel->in.len < TUNNEL_IN_MAX &&
	       !tunnel->connection.gate->is_paused;
}

static void set_interest(struct tunnel *tunnel)
{
	connection_watch(&tunnel->connection, wants_input(tunnel), out_len(tunnel) > 0);
}

/* Sends what the credit and the link allow of what has come. */
static void pass_on(struct tunnel *tunnel)
{
	struct bytes rest = { tunnel->in.data, tunnel->in.len };

	while (rest.len > 0 && tunnel->call.credit > 0 && call_is_open(&tunnel->call)) {
		size_t len = rest.len < tunnel->call.credit ? rest.len : tunnel->call.credit;

		if (link_port_is_behind(&tunnel->connection.gate->link)) {
			tunnel->connection.gate->is_paused = true;
			break;
		}
		call_send(&tunnel->call,
			  bytes_take(&rest, len < LINK_DATA_MAX ? len : LINK_DATA_MAX));
	}
	buf_keep(&tunnel->in, rest);
	if (rest.len == 0 && tunnel->has_input_ended && call_is_open(&tunnel->call) &&
	    !tunnel->call.is_request_over) {
		call_end_request(&tunnel->call);
		connection_mark_dirty(&tunnel->connection); /* that may have been all */
	}
}

static void read_input(struct tunnel *tunnel)
{
	char *input = tunnel->connection.gate->input;
	ssize_t n = stream_read(&tunnel->connection.stream, input, TUNNEL_IN_MAX - tunnel->in.len);

	if (n == -EAGAIN)
		return;
	if (n < 0) {
		close_tunnel(tunnel);
		return;
	}
	tunnel->has_input_ended = n == 0;
	buf_add(&tunnel->in, input, (size_t)n);
	pass_on(tunnel);
}

static void on_ready(struct connection *connection, unsigned int ready, uint64_t now_ms)
{
	struct tunnel *tunnel = tunnel_at(connection);

	(void)now_ms;
	/* Both directions are closed, but what the agent said before may be unread yet. */
	if ((ready & LOOP_HANGUP) && (tunnel->has_input_ended || !tunnel->is_shut)) {
		close_tunnel(tunnel);
		return;
	}
	if ((ready & LOOP_READ) && wants_input(tunnel))
		read_input(tunnel);
	if (is_open(tunnel) && (ready & LOOP_WRITE))
		connection_mark_dirty(connection);
	if (is_open(tunnel))
		set_interest(tunnel);
}

static void go_on(struct tunnel *tunnel)
{
	if (!is_open(tunnel))
		return;
	pass_on(tunnel);
	set_interest(tunnel);
}

static void resume(struct connection *connection, uint64_t now_ms)
{
	(void)now_ms;
	go_on(tunnel_at(connection));
}

/* Everything is written: the end follows, where the host has said all. */
static void on_written(struct tunnel *tunnel)
{
	buf_fini(&tunnel->out);
	tunnel->out_start = 0;
	call_grant(&tunnel->call);
	if (!tunnel->is_reply_over)
		return;
	if (!call_is_open(&tunnel->call)) {
		close_tunnel(tunnel);
	} else if (!tunnel->is_shut) {
		tunnel->is_shut = true; /* the agent may not have said all */
		shutdown(tunnel->connection.source.fd, SHUT_WR);
	}
}

static void finish_turn(struct connection *connection, uint64_t now_ms)
{
	struct tunnel *tunnel = tunnel_at(connection);

	(void)now_ms;
	while (is_open(tunnel) && out_len(tunnel) > 0) {
		ssize_t n = stream_write(&connection->stream, tunnel->out.data + tunnel->out_start,
					 out_len(tunnel));

		if (n == -EAGAIN)
			break;
		if (n < 0)
			close_tunnel(tunnel);
		else
			tunnel->out_start += (size_t)n;
	}
	if (is_open(tunnel) && out_len(tunnel) == 0)
		on_written(tunnel);
	if (is_open(tunnel))
		set_interest(tunnel);
}

/* It is not known what it is for. */
static bool is_idle(const struct connection *connection)
{
	(void)connection;
	return false;
}

static const struct connection_ops ops = {
	on_ready, resume, finish_turn, is_idle, reset, free_tunnel,
};

/* ---- what the keeper says ---- */

static struct tunnel *tunnel_of(struct call *call)
{
	return OWNER_OF(call, struct tunnel, call);
}

/* Connected, or refused: there is nothing to be said in a protocol that is not known. */
static void on_reply(struct call *call, const struct link_reply *reply)
{
	if (reply->status != 200)
		close_tunnel(tunnel_of(call));
}

static void on_data(struct call *call, struct bytes data)
{
	struct tunnel *tunnel = tunnel_of(call);

	if (tunnel->out_start > 0) {
		buf_keep(&tunnel->out,
			 (struct bytes){ tunnel->out.data + tunnel->out_start, out_len(tunnel) });
		tunnel->out_start = 0;
	}
	buf_add(&tunnel->out, data.data, data.len);
	connection_mark_dirty(&tunnel->connection);
}

static void on_end(struct call *call, const struct link_end *end)
{
	struct tunnel *tunnel = tunnel_of(call);

	(void)end;
	tunnel->is_reply_over = true;
	connection_mark_dirty(&tunnel->connection);
}

static void on_credit(struct call *call)
{
	go_on(tunnel_of(call));
}

static void on_abort(struct call *call)
{
	close_tunnel(tunnel_of(call));
}

static const struct carrier carrier = { on_reply, on_data, on_end, on_credit, on_abort };

void tunnel_open(struct gate *gate, int fd, const struct authority *target, struct bytes first,
		 uint64_t now_ms)
{
	static struct link_open open; /* large, and needed only in here */
	struct tunnel *tunnel = calloc(1, sizeof(*tunnel));
	char host[AUTHORITY_TEXT_MAX];
	struct stream stream;

	if (!tunnel)
		die_no_memory();
	call_init(&tunnel->call, gate, &carrier);
	buf_init(&tunnel->in, TUNNEL_IN_MAX);
	buf_init(&tunnel->out, TUNNEL_OUT_MAX);
	stream_init_plain(&stream, fd);
	if (connection_open(&tunnel->connection, gate, &stream, &ops, now_ms) < 0)
		return;
	authority_format(target->host, target->port, host);
	open = (struct link_open){ .kind = LINK_KIND_TUNNEL,
				   .minor = 1,
				   .framing = FRAMING_CHUNKED };
	open.method = BYTES("CONNECT");
	open.host = bytes_of(host);
	open.path = BYTES("/");
	call_open(&tunnel->call, &open);
	open.host = (struct bytes){ NULL, 0 }; /* of this call only */
	buf_add(&tunnel->in, first.data, first.len);
	go_on(tunnel);
}
