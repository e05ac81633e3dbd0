/* SPDX-License-Identifier: MIT */
/* A connection that is carried as it is. */
#include "gate/tunnel.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/die.h"
#include "base/list.h"
#include "gate/call.h"
#include "sys/fd.h"

#define TUNNEL_IN_MAX  65536 /* of what has come and waits for credit */
#define TUNNEL_OUT_MAX ((size_t)2 * LINK_CREDIT_FIRST)

struct tunnel {
	struct loop_deferred deferred; /* first: freed at the end of a turn */
	struct loop_source source;
	struct gate *gate;
	struct tunnel *next, **at;
	struct tunnel *next_dirty;
	struct call call;
	struct buf in, out;
	size_t out_start;
	bool is_dirty;
	bool has_input_ended; /* the agent has said all */
	bool is_reply_over;   /* the host has */
	bool is_shut;         /* ... and the agent knows */
};

static const struct carrier carrier;

/* ---- opening and closing ---- */

static void free_tunnel(struct loop_deferred *deferred)
{
	struct tunnel *tunnel = (struct tunnel *)(void *)deferred;

	buf_fini(&tunnel->in);
	buf_fini(&tunnel->out);
	free(tunnel);
}

static bool is_open(const struct tunnel *tunnel)
{
	return tunnel->source.fd >= 0;
}

/* Unless both sides have said all, the agent sees an error. */
void tunnel_close(struct tunnel *tunnel)
{
	struct gate *gate = tunnel->gate;
	int fd = tunnel->source.fd;

	if (!is_open(tunnel))
		return;
	call_abort(&tunnel->call);
	if (!tunnel->is_reply_over)
		fd_set_abrupt(fd, true);
	loop_remove(&gate->loop, &tunnel->source);
	close(fd);
	LIST_REMOVE(tunnel);
	gate->session_count--;
	gate_hear(gate);
	loop_defer(&gate->loop, &tunnel->deferred);
}

struct tunnel *tunnel_next(const struct tunnel *tunnel)
{
	return tunnel->next;
}

struct tunnel *tunnel_next_dirty(const struct tunnel *tunnel)
{
	return tunnel->next_dirty;
}

/* ---- moving bytes ---- */

static size_t out_len(const struct tunnel *tunnel)
{
	return tunnel->out.len - tunnel->out_start;
}

static void set_interest(struct tunnel *tunnel)
{
	bool wants_input = !tunnel->has_input_ended && tunnel->in.len < TUNNEL_IN_MAX &&
			   !tunnel->gate->is_paused;
	unsigned int interest = (wants_input ? LOOP_READ : 0) |
				(out_len(tunnel) > 0 ? LOOP_WRITE : 0);

	if (loop_change(&tunnel->gate->loop, &tunnel->source, interest) < 0)
		tunnel_close(tunnel);
}

static void mark_dirty(struct tunnel *tunnel)
{
	if (tunnel->is_dirty)
		return;
	tunnel->is_dirty = true;
	tunnel->next_dirty = tunnel->gate->dirty_tunnels;
	tunnel->gate->dirty_tunnels = tunnel;
}

/* Sends what the credit and the link allow of what has come. */
static void pass_on(struct tunnel *tunnel)
{
	struct bytes rest = { tunnel->in.data, tunnel->in.len };

	while (rest.len > 0 && tunnel->call.credit > 0 && call_is_open(&tunnel->call)) {
		size_t len = rest.len < tunnel->call.credit ? rest.len : tunnel->call.credit;

		if (link_port_is_behind(&tunnel->gate->link)) {
			tunnel->gate->is_paused = true;
			break;
		}
		call_send(&tunnel->call,
			  bytes_take(&rest, len < LINK_DATA_MAX ? len : LINK_DATA_MAX));
	}
	buf_keep(&tunnel->in, rest);
	if (rest.len == 0 && tunnel->has_input_ended && call_is_open(&tunnel->call) &&
	    !tunnel->call.is_request_over) {
		call_end_request(&tunnel->call);
		mark_dirty(tunnel); /* that may have been all */
	}
}

static void read_input(struct tunnel *tunnel)
{
	char *input = tunnel->gate->input;
	ssize_t n = recv(tunnel->source.fd, input, TUNNEL_IN_MAX - tunnel->in.len, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		tunnel_close(tunnel);
		return;
	}
	tunnel->has_input_ended = n == 0;
	buf_add(&tunnel->in, input, (size_t)n);
	pass_on(tunnel);
}

static void on_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct tunnel *tunnel = OWNER_OF(source, struct tunnel, source);

	(void)now_ms;
	/* Both directions are closed, but what the agent said before may be unread yet. */
	if ((ready & LOOP_HANGUP) && (tunnel->has_input_ended || !tunnel->is_shut)) {
		tunnel_close(tunnel);
		return;
	}
	if ((ready & LOOP_READ) && !tunnel->has_input_ended && tunnel->in.len < TUNNEL_IN_MAX &&
	    !tunnel->gate->is_paused)
		read_input(tunnel);
	if (is_open(tunnel) && (ready & LOOP_WRITE))
		mark_dirty(tunnel);
	if (is_open(tunnel))
		set_interest(tunnel);
}

void tunnel_resume(struct tunnel *tunnel)
{
	if (!is_open(tunnel))
		return;
	pass_on(tunnel);
	set_interest(tunnel);
}

void tunnel_finish_turn(struct tunnel *tunnel)
{
	tunnel->is_dirty = false;
	while (is_open(tunnel) && out_len(tunnel) > 0) {
		ssize_t n = send(tunnel->source.fd, tunnel->out.data + tunnel->out_start,
				 out_len(tunnel), MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			tunnel_close(tunnel);
			return;
		}
		tunnel->out_start += (size_t)n;
	}
	if (!is_open(tunnel))
		return;
	if (out_len(tunnel) == 0) {
		buf_fini(&tunnel->out);
		tunnel->out_start = 0;
		call_grant(&tunnel->call);
		if (tunnel->is_reply_over && !call_is_open(&tunnel->call)) {
			tunnel_close(tunnel);
			return;
		}
		if (tunnel->is_reply_over && !tunnel->is_shut) {
			tunnel->is_shut = true; /* the host has said all; the agent may not have */
			shutdown(tunnel->source.fd, SHUT_WR);
		}
	}
	set_interest(tunnel);
}

/* ---- what the keeper says ---- */

static struct tunnel *tunnel_of(struct call *call)
{
	return OWNER_OF(call, struct tunnel, call);
}

/* Connected, or refused: there is nothing to be said in a protocol that is not known. */
static void on_reply(struct call *call, const struct link_reply *reply)
{
	if (reply->status != 200)
		tunnel_close(tunnel_of(call));
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
	mark_dirty(tunnel);
}

static void on_end(struct call *call, const struct link_end *end)
{
	struct tunnel *tunnel = tunnel_of(call);

	(void)end;
	tunnel->is_reply_over = true;
	mark_dirty(tunnel);
}

static void on_credit(struct call *call)
{
	tunnel_resume(tunnel_of(call));
}

static void on_abort(struct call *call)
{
	tunnel_close(tunnel_of(call));
}

static const struct carrier carrier = { on_reply, on_data, on_end, on_credit, on_abort };

void tunnel_open(struct gate *gate, int fd, const struct authority *target, struct bytes first,
		 uint64_t now_ms)
{
	static struct link_open open; /* large, and needed only in here */
	struct tunnel *tunnel = calloc(1, sizeof(*tunnel));
	char host[AUTHORITY_TEXT_MAX];

	(void)now_ms;
	if (!tunnel)
		die_no_memory();
	tunnel->gate = gate;
	tunnel->deferred.free = free_tunnel;
	tunnel->source = (struct loop_source){ .fd = -1, .on_ready = on_ready };
	call_init(&tunnel->call, gate, &carrier);
	buf_init(&tunnel->in, TUNNEL_IN_MAX);
	buf_init(&tunnel->out, TUNNEL_OUT_MAX);
	if (loop_add(&gate->loop, &tunnel->source, fd, LOOP_READ) < 0) {
		close(fd);
		free_tunnel(&tunnel->deferred);
		return;
	}
	LIST_ADD(&gate->tunnels_open, tunnel);
	gate->session_count++;
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
	tunnel_resume(tunnel);
}
