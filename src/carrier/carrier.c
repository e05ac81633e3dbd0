/* SPDX-License-Identifier: MIT */
/* Two ports that fill each other, and the way there. */
#include "carrier/carrier.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/die.h"
#include "event/loop.h"
#include "link/port.h"
#include "net/alive.h"
#include "net/connect.h"
#include "tls/tls_client.h"

#define OUT_MAX (4 << 20) /* beyond LINK_PORT_HIGH and a turn's reading, nothing is read */
#define FAILED  '!'       /* the letter of a notice that says why there is no run */
#define CA_HINT "--keeper-ca can name the authority of its certificate"

struct carrier {
	struct loop loop;
	const struct carrier_config *config;
	struct net *net;
	struct tls_client *tls;
	struct connect *connect; /* these two while they are under way */
	struct tls_handshake *handshake;
	struct loop_source starter;
	struct link_port keeper, gate;
	bool has_keeper, has_gate;         /* whether the port is open */
	bool is_leaving;                   /* BYE is said */
	bool has_token;                    /* ... still to be written out, and wiped */
	bool has_failed;                   /* the keeper has said why itself */
	bool is_keeper_deaf, is_gate_deaf; /* nothing more can be written to it */
	bool is_over;
	struct loop_timer leave; /* how long the gate may take to end, and then the last words */
	int result;
	struct err *err;
};

/* ---- the end ---- */

/* The first reason counts. */
static void end(struct carrier *carrier, int result)
{
	if (!carrier->is_over)
		carrier->result = result;
	carrier->is_over = true;
	loop_end(&carrier->loop);
}

static void fail(struct carrier *carrier, int code, const char *what)
{
	if (!carrier->is_over)
		err_say(carrier->err, code, "the keeper at %s:%u %s", carrier->config->host,
			carrier->config->port, what);
	end(carrier, -code);
}

static void end_with_keeper(struct carrier *carrier, int error)
{
	static const struct {
		int error;
		const char *text;
	} rows[] = {
		{ -EPIPE, "has closed the link" },
		{ -EPROTO, "sends what is no message of the link" },
		{ -ETIMEDOUT, "cannot be reached any more" },
	};
	const char *text = "has broken the link off";

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].error == error)
			text = rows[i].text;
	if (error == -ECANCELED || carrier->has_failed)
		end(carrier, -ECANCELED);
	else if (carrier->is_leaving && error == -EPIPE)
		end(carrier, 0);
	else
		fail(carrier, -error, text);
}

/* No more comes from the gate. */
static void say_bye(struct carrier *carrier, uint64_t now_ms)
{
	bool is_whole = link_reader_is_between(&carrier->gate.reader);

	link_port_close(&carrier->gate);
	carrier->has_gate = false;
	/* In the middle of a message nothing can be said any more; the keeper knows by the end. */
	if (!is_whole || carrier->is_keeper_deaf) {
		end(carrier, -ECANCELED);
		return;
	}
	link_write_bye(&carrier->keeper.out);
	carrier->is_leaving = true;
	loop_set_timer(&carrier->loop, &carrier->leave, now_ms + CARRIER_LEAVE_MS);
}

static void on_leave_over(struct loop_timer *timer, uint64_t now_ms)
{
	struct carrier *carrier = OWNER_OF(timer, struct carrier, leave);

	if (carrier->has_gate)
		say_bye(carrier, now_ms);
	else
		fail(carrier, ETIMEDOUT, "did not say how the run went");
}

/*
 * A starter that closes one direction has ended the run, and hears what the keeper has to say about
 * it; the gate is about to end as well, and its last messages count. One that is gone hears
 * nothing.
 */
static void on_starter(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct carrier *carrier = OWNER_OF(source, struct carrier, starter);
	char letter;

	if (!(ready & LOOP_HANGUP) && recv(source->fd, &letter, sizeof(letter), MSG_DONTWAIT) != 0)
		return; /* there is nothing to be told */
	if ((ready & LOOP_HANGUP) || !carrier->has_keeper ||
	    loop_change(&carrier->loop, source, 0) < 0)
		end(carrier, -ECANCELED);
	else if (carrier->has_gate)
		loop_set_timer(&carrier->loop, &carrier->leave, now_ms + CARRIER_LEAVE_MS);
}

/* ---- the two ports ---- */

static int on_notice(struct carrier *carrier, struct bytes payload)
{
	struct link_notice notice;
	int r;

	if (link_parse_notice(payload, &notice) < 0)
		return -EPROTO;
	r = carrier->config->on_notice(notice.letter, notice.text);
	if (r < 0)
		return r == -EPROTO ? -EPROTO : -ECANCELED;
	carrier->has_failed = carrier->has_failed || notice.letter == FAILED;
	return 0;
}

static int on_keeper_message(struct link_port *port, enum link_event event, struct bytes payload,
			     uint64_t now_ms)
{
	struct carrier *carrier = OWNER_OF(port, struct carrier, keeper);

	(void)now_ms;
	if (event == LINK_MESSAGE)
		return on_notice(carrier, payload); /* the only one that a keeper may send us */
	if (carrier->has_gate && !carrier->is_gate_deaf)
		buf_add(&carrier->gate.out, payload.data, payload.len);
	return 0;
}

/*
 * From here on the bytes may be the agent's. INV-RUN-IDENTITY: which run it is, the token has said;
 * what is ours to say, the gate must not say.
 */
static int on_gate_message(struct link_port *port, enum link_event event, struct bytes payload,
			   uint64_t now_ms)
{
	struct carrier *carrier = OWNER_OF(port, struct carrier, gate);

	(void)now_ms;
	if (event == LINK_MESSAGE)
		return -EPROTO;
	if (!carrier->is_keeper_deaf)
		buf_add(&carrier->keeper.out, payload.data, payload.len);
	return 0;
}

static void on_keeper_over(struct link_port *port, int error, uint64_t now_ms)
{
	(void)now_ms;
	end_with_keeper(OWNER_OF(port, struct carrier, keeper), error);
}

static void on_gate_over(struct link_port *port, int error, uint64_t now_ms)
{
	struct carrier *carrier = OWNER_OF(port, struct carrier, gate);

	if (error == -EPROTO && !carrier->is_over) {
		err_say(carrier->err, EPROTO, "the gate sends what is no message of the link");
		end(carrier, -EPROTO);
	} else {
		say_bye(carrier, now_ms);
	}
}

/* ---- turns ---- */

/* Once it is written out, the token is not needed here any more. */
static void wipe_token(struct carrier *carrier)
{
	struct buf *out = &carrier->keeper.out;

	if (!carrier->has_token || carrier->keeper.has_left || carrier->is_keeper_deaf)
		return;
	explicit_bzero(out->data, out->size);
	carrier->has_token = false;
}

/* One that has closed may have said something before: its end comes when that has been read. */
static void set_deaf(struct link_port *port, bool *ret_is_deaf)
{
	*ret_is_deaf = true;
	buf_fini(&port->out);
	port->out_start = 0;
}

static void flush_keeper(struct carrier *carrier)
{
	int r = carrier->is_keeper_deaf ? 0 : link_port_flush(&carrier->keeper);

	if (r == -EPIPE || r == -ECONNRESET)
		set_deaf(&carrier->keeper, &carrier->is_keeper_deaf);
	else if (r < 0)
		end_with_keeper(carrier, r);
	else
		wipe_token(carrier);
}

static void flush_gate(struct carrier *carrier)
{
	int r = carrier->has_gate && !carrier->is_gate_deaf ? link_port_flush(&carrier->gate) : 0;

	if (r == -EPIPE || r == -ECONNRESET)
		set_deaf(&carrier->gate, &carrier->is_gate_deaf);
	else if (r < 0)
		end_with_keeper(carrier, r);
}

static void on_turn_end(struct loop *loop, uint64_t now_ms)
{
	struct carrier *carrier = OWNER_OF(loop, struct carrier, loop);
	int r = 0;

	(void)now_ms;
	if (!carrier->has_keeper || carrier->is_over)
		return;
	flush_gate(carrier);
	flush_keeper(carrier);
	/* Each side is read only while the other one keeps up. */
	if (carrier->has_gate)
		r = link_port_pause(&carrier->gate, link_port_is_behind(&carrier->keeper));
	if (r == 0)
		r = link_port_pause(&carrier->keeper,
				    carrier->has_gate && link_port_is_behind(&carrier->gate));
	if (r < 0)
		end_with_keeper(carrier, r);
}

/* ---- the way there ---- */

static int open_ports(struct carrier *carrier, const struct stream *stream)
{
	struct stream gate;
	int r = link_port_open(&carrier->keeper, &carrier->loop, stream, LINK_SIDE_GATE, OUT_MAX,
			       on_keeper_message);

	if (r < 0)
		return r;
	carrier->has_keeper = true;
	carrier->keeper.on_over = on_keeper_over;
	carrier->keeper.reader.is_carrier = true;
	stream_init_plain(&gate, carrier->config->gate_fd);
	r = link_port_open(&carrier->gate, &carrier->loop, &gate, LINK_SIDE_KEEPER, OUT_MAX,
			   on_gate_message);
	carrier->has_gate = r == 0;
	carrier->gate.on_over = on_gate_over;
	carrier->gate.reader.is_carrier = true;
	return r;
}

/* What was needed to get here is given up. */
static int settle(struct carrier *carrier, const struct stream *stream)
{
	int r = open_ports(carrier, stream);

	if (r < 0)
		return err_set(carrier->err, -r, "open the link");
	link_write_token(&carrier->keeper.out, carrier->config->token);
	carrier->has_token = true;
	net_free(carrier->net);
	carrier->net = NULL;
	return carrier->config->on_connected(carrier->err);
}

static void on_handshake(void *owner, struct stream *stream, enum tls_alpn alpn,
			 const struct err *err, uint64_t now_ms)
{
	struct carrier *carrier = owner;
	int r;

	(void)now_ms;
	carrier->handshake = NULL;
	if (err) {
		end(carrier, err_say(carrier->err, err->code, "the keeper at %s:%u: %.400s",
				     carrier->config->host, carrier->config->port, err->text));
		return;
	}
	if (alpn != TLS_ALPN_WARDER) {
		stream_close(stream);
		fail(carrier, EPROTO, "is no keeper: it does not speak warder/1");
		return;
	}
	r = settle(carrier, stream);
	if (r < 0)
		end(carrier, r);
}

static void on_connect(void *owner, int fd, const struct err *err, uint64_t now_ms)
{
	struct carrier *carrier = owner;
	int r;

	carrier->connect = NULL;
	if (err) {
		end(carrier,
		    err_say(carrier->err, err->code, "cannot reach the keeper: %.400s", err->text));
		return;
	}
	r = alive_watch(fd);
	if (r < 0) {
		close(fd);
		end(carrier, err_set(carrier->err, -r, "watch the connection to the keeper"));
		return;
	}
	carrier->handshake = tls_handshake_start(carrier->tls, &carrier->loop, fd,
						 carrier->config->host, TLS_ALPN_WARDER,
						 CARRIER_TLS_MS, now_ms, on_handshake, carrier);
}

static int start(struct carrier *carrier)
{
	const struct carrier_config *config = carrier->config;
	int r = tls_client_new(config->ca, &carrier->tls, carrier->err);

	if (r < 0)
		return r;
	tls_client_set_own(carrier->tls, CA_HINT);
	r = loop_init(&carrier->loop);
	if (r < 0)
		return err_set(carrier->err, -r, "create an event loop");
	carrier->loop.on_turn_end = on_turn_end;
	carrier->starter = (struct loop_source){ .fd = -1, .on_ready = on_starter };
	carrier->leave.on_due = on_leave_over;
	r = loop_add(&carrier->loop, &carrier->starter, config->starter_fd, LOOP_READ);
	if (r < 0)
		return err_set(carrier->err, -r, "watch whoever started the run");
	carrier->net = net_new(&carrier->loop);
	carrier->connect = connect_start(carrier->net, config->host, config->port,
					 CARRIER_CONNECT_MS, clock_now_ms(), on_connect, carrier);
	return 0;
}

static void stop(struct carrier *carrier)
{
	if (carrier->connect)
		connect_cancel(carrier->connect);
	if (carrier->handshake)
		tls_handshake_cancel(carrier->handshake);
	if (carrier->has_gate)
		link_port_close(&carrier->gate);
	if (carrier->has_keeper)
		link_port_close(&carrier->keeper);
	if (carrier->net)
		net_free(carrier->net);
	if (carrier->loop.events)
		loop_fini(&carrier->loop);
	tls_client_free(carrier->tls);
	free(carrier);
}

int carrier_run(const struct carrier_config *config, struct err *err)
{
	struct carrier *carrier = calloc(1, sizeof(*carrier));
	int r;

	if (!carrier)
		die_no_memory();
	carrier->config = config;
	carrier->err = err;
	r = start(carrier);
	if (r == 0) {
		r = loop_run(&carrier->loop);
		if (r < 0)
			err_set(err, -r, "wait for events");
		else
			r = carrier->result;
	}
	stop(carrier);
	return r;
}
