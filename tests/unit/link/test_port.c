/* SPDX-License-Identifier: MIT */
/* A port on a plain socket and on TLS: whatever way the bytes are cut, the messages are the same.
 */
#include "../tls/pair.h"

#include <assert.h>
#include <fcntl.h>

#include "base/clock.h"
#include "link/port.h"

#define OUT_MAX (8 << 20)
#define TURNS   200000 /* more than anything here takes */

/* The port that is tested is the keeper's; the test is the gate, or what came in its place. */
struct world {
	struct link_port port;
	struct tls_server gate; /* a client, really; without TLS only its descriptor is used */
	bool is_tls;
	bool closes; /* the port, in its own callback */
	bool pauses;
	int fails; /* what on_message returns */
	int over_calls, over_error, room_calls;
	size_t messages, bytes;
	char text[512]; /* what came */
};

static struct loop loop;
static struct tls_pair pair;
static int listener_fd;

/* ---- once for all ---- */

static int set_up_all(void **state)
{
	(void)state;
	tls_pair_init(&pair);
	listener_fd = listen_on_loopback(5);
	return 0;
}

static int tear_down_all(void **state)
{
	(void)state;
	tls_pair_fini(&pair);
	close_fd(&listener_fd);
	return 0;
}

static int set_up(void **state)
{
	(void)state;
	return loop_init(&loop);
}

static int tear_down(void **state)
{
	(void)state;
	loop_fini(&loop);
	return 0;
}

/* ---- the port ---- */

static int on_message(struct link_port *port, enum link_event event, struct bytes payload,
		      uint64_t now_ms)
{
	struct world *world = OWNER_OF(port, struct world, port);
	size_t used = strlen(world->text);

	(void)now_ms;
	world->bytes += payload.len;
	world->messages += event == LINK_MESSAGE;
	if (event == LINK_PIECE)
		snprintf(world->text + used, sizeof(world->text) - used, "%.*s", (int)payload.len,
			 payload.data);
	else
		snprintf(world->text + used, sizeof(world->text) - used, "(%d %u)",
			 port->reader.type, port->reader.exchange);
	if (world->pauses)
		assert_int_equal(link_port_pause(port, true), 0);
	if (world->closes)
		link_port_close(port);
	return world->fails;
}

static void on_over(struct link_port *port, int error, uint64_t now_ms)
{
	struct world *world = OWNER_OF(port, struct world, port);

	assert_true(now_ms > 0);
	world->over_calls++;
	world->over_error = error;
	link_port_close(port);
}

static void on_room(struct link_port *port, uint64_t now_ms)
{
	(void)now_ms;
	OWNER_OF(port, struct world, port)->room_calls++;
}

static void on_accepted(void *owner, struct stream *stream, const struct err *err, uint64_t now_ms)
{
	(void)now_ms;
	assert_null(err);
	*(struct stream *)owner = *stream;
}

static void turn(struct world *world)
{
	if (world->is_tls)
		tls_server_pump(&world->gate);
	assert_int_equal(loop_turn(&loop, 0), 0);
	/* At the end of a turn, as an owner does. */
	if (world->port.source.fd >= 0)
		assert_int_equal(link_port_flush(&world->port), 0);
}

static void open_world(struct world *world, bool is_tls)
{
	struct stream stream = { .fd = -1 };

	assert(world);
	*world = (struct world){ .is_tls = is_tls };
	tls_server_open(&world->gate, pair.client, listener_fd);
	fcntl(world->gate.client_fd, F_SETFL, O_NONBLOCK);
	/* Sockets that are soon full. */
	setsockopt(world->gate.client_fd, SOL_SOCKET, SO_SNDBUF, &(int){ 65536 }, sizeof(int));
	setsockopt(world->gate.fd, SOL_SOCKET, SO_RCVBUF, &(int){ 65536 }, sizeof(int));
	SSL_set_connect_state(world->gate.ssl);
	if (is_tls) {
		struct tls_caller *caller = tls_service_accept(
			pair.service, &loop, take_fd(&world->gate.client_fd), 5000, clock_now_ms(),
			on_accepted, &stream);

		assert_non_null(caller);
		for (int i = 0; stream.fd < 0 && i < TURNS; i++) {
			tls_server_pump(&world->gate);
			assert_int_equal(loop_turn(&loop, 0), 0);
		}
	} else {
		stream_init_plain(&stream, take_fd(&world->gate.client_fd));
	}
	assert_true(stream.fd >= 0);
	assert_int_equal(
		link_port_open(&world->port, &loop, &stream, LINK_SIDE_KEEPER, OUT_MAX, on_message),
		0);
	world->port.on_over = on_over;
	world->port.on_room = on_room;
}

static void close_world(struct world *world)
{
	link_port_close(&world->port);
	tls_server_close(&world->gate);
}

/* ---- the gate ---- */

static void gate_send(struct world *world, const char *data, size_t len)
{
	if (world->is_tls)
		assert_int_equal(SSL_write(world->gate.ssl, data, (int)len), (int)len);
	else
		assert_int_equal(send(world->gate.fd, data, len, MSG_NOSIGNAL), len);
}

/* What has come, as the gate reads it. */
static size_t gate_receive(struct world *world, char *ret_data, size_t size)
{
	ssize_t n = world->is_tls ? SSL_read(world->gate.ssl, ret_data, (int)size)
				  : recv(world->gate.fd, ret_data, size, 0);

	ERR_clear_error();
	return n > 0 ? (size_t)n : 0;
}

static void write_samples(struct buf *out)
{
	buf_init(out, 1 << 20);
	link_write_abort(out, 8);
	link_write_data(out, 7, BYTES("hello, link"));
	link_write_credit(out, 7, 4096);
	link_write_data(out, 9, BYTES("!"));
}

#define SAMPLES "(7 8)hello, link(6 7)!"

static void run_until(struct world *world, const char *text)
{
	for (int i = 0; strcmp(world->text, text) != 0; i++) {
		if (i == TURNS)
			fail_msg("got '%s' of '%s'", world->text, text);
		turn(world);
	}
}

/* ---- tests ---- */

/* In pieces of each size: of TLS, the records are cut as well. */
static void messages_arrive_however_they_are_cut(void **state)
{
	struct world *world = malloc(sizeof(*world));
	struct buf samples;

	(void)state;
	write_samples(&samples);
	for (int is_tls = 0; is_tls < 2; is_tls++)
		for (size_t piece = 1; piece <= samples.len; piece++) {
			open_world(world, is_tls);
			world->gate.step = is_tls ? piece : 0;
			for (size_t at = 0; at < samples.len; at += piece) {
				gate_send(world, samples.data + at,
					  at_most(samples.len - at, piece));
				turn(world);
			}
			run_until(world, SAMPLES);
			assert_int_equal(world->over_calls, 0);
			close_world(world);
		}
	/* All in one record, byte by byte. */
	open_world(world, true);
	world->gate.step = 1;
	gate_send(world, samples.data, samples.len);
	run_until(world, SAMPLES);
	close_world(world);
	buf_fini(&samples);
	free(world);
}

/* More than any socket takes, to somebody who is slow: nothing is lost, and room is told. */
static void everything_is_written(void **state)
{
	struct world *world = malloc(sizeof(*world));
	static char block[LINK_DATA_MAX], got[65536];
	struct link_reader reader;

	(void)state;
	for (int is_tls = 0; is_tls < 2; is_tls++) {
		size_t received = 0, sent = 0;

		open_world(world, is_tls);
		for (; sent < 6 << 20; sent += sizeof(block)) {
			for (size_t i = 0; i < sizeof(block); i++)
				block[i] = (char)((sent + i) % 251);
			link_write_data(&world->port.out, 5,
					(struct bytes){ block, sizeof(block) });
		}
		assert_true(link_port_is_behind(&world->port));
		link_reader_init(&reader, LINK_SIDE_KEEPER);
		for (int i = 0; received < sent; i++) {
			struct bytes input = { got, 0 }, payload;

			assert_true(i < TURNS);
			turn(world);
			input.len = gate_receive(world, got, sizeof(got));
			while (link_read(&reader, &input, &payload) == LINK_PIECE)
				for (size_t at = 0; at < payload.len; at++, received++)
					if (payload.data[at] != (char)(received % 251))
						fail_msg("wrong at %zu", received);
		}
		turn(world);
		assert_false(world->port.has_left);
		assert_true(world->room_calls > 0);
		assert_true(world->port.out.size <= 1 << 19); /* given back */
		link_reader_fini(&reader);
		close_world(world);
	}
	free(world);
}

/* More than it may hold: the link is over, and nothing of it is sent that is not whole. */
static void too_much_ends_the_link(void **state)
{
	struct world *world = malloc(sizeof(*world));
	static char block[LINK_DATA_MAX], got[65536];

	(void)state;
	for (int is_tls = 0; is_tls < 2; is_tls++) {
		open_world(world, is_tls);
		for (size_t sent = 0; sent <= world->port.out.max; sent += sizeof(block))
			link_write_data(&world->port.out, 5,
					(struct bytes){ block, sizeof(block) });
		link_write_abort(&world->port.out, 5);
		assert_int_equal(link_port_flush(&world->port), -ENOBUFS);
		assert_int_equal(gate_receive(world, got, sizeof(got)), 0);
		close_world(world);
	}
	free(world);
}

/* A link that ends, however it does, is over once, and is the only one that is. */
static void a_fault_is_told_to_the_owner_only(void **state)
{
	struct world *world = malloc(sizeof(*world)), *other = malloc(sizeof(*other));
	static const char garbage[LINK_HEADER_LEN] = "\377";
	struct buf samples;

	(void)state;
	write_samples(&samples);
	for (int is_tls = 0; is_tls < 2; is_tls++)
		for (int fault = 0; fault < 4; fault++) {
			static const int errors[2][4] = {
				{ -EPIPE, -EPIPE, -EPROTO, -ENOMSG },
				{ -EPIPE, -ECONNRESET, -EPROTO, -ENOMSG },
			};

			open_world(other, !is_tls);
			open_world(world, is_tls);
			if (fault == 0 && is_tls)
				SSL_shutdown(world->gate.ssl);
			else if (fault <= 1)
				shutdown(world->gate.fd, SHUT_WR);
			else if (fault == 2)
				gate_send(world, garbage, sizeof(garbage));
			else
				gate_send(world, samples.data, samples.len);
			world->fails = fault == 3 ? -ENOMSG : 0;
			for (int i = 0; world->over_calls == 0 && i < TURNS; i++)
				turn(world);
			assert_int_equal(world->over_calls, 1);
			assert_int_equal(world->over_error, errors[is_tls][fault]);
			assert_int_equal(link_port_flush(&world->port), -EPIPE);
			gate_send(other, samples.data, samples.len);
			run_until(other, SAMPLES);
			close_world(world);
			close_world(other);
		}
	buf_fini(&samples);
	free(world);
	free(other);
}

static void without_an_owner_the_loop_ends(void **state)
{
	struct world *world = malloc(sizeof(*world));

	(void)state;
	open_world(world, false);
	world->port.on_over = NULL;
	close_fd(&world->gate.fd);
	assert_int_equal(loop_run(&loop), 0);
	assert_int_equal(link_port_flush(&world->port), -EPIPE);
	close_world(world);
	free(world);
}

static void a_port_may_be_closed_in_its_callback(void **state)
{
	struct world *world = malloc(sizeof(*world));
	struct buf samples;

	(void)state;
	write_samples(&samples);
	for (int is_tls = 0; is_tls < 2; is_tls++) {
		open_world(world, is_tls);
		world->closes = true;
		gate_send(world, samples.data, samples.len);
		for (int i = 0; i < 100; i++)
			turn(world);
		assert_string_equal(world->text, "(7 8)"); /* and nothing after it */
		assert_int_equal(world->over_calls, 0);
		close_world(world);
	}
	buf_fini(&samples);
	free(world);
}

/* What TLS has read ahead raises no event when the port goes on. */
static void a_paused_port_reads_on_when_it_may(void **state)
{
	struct world *world = malloc(sizeof(*world));
	struct buf samples;

	(void)state;
	write_samples(&samples);
	for (int is_tls = 0; is_tls < 2; is_tls++) {
		size_t seen;

		open_world(world, is_tls);
		turn(world);
		world->pauses = true;
		gate_send(world, samples.data, LINK_HEADER_LEN);
		for (int i = 0; i < 50; i++) /* records of their own, in one segment */
			gate_send(world, samples.data, LINK_HEADER_LEN);
		for (int i = 0; i < 100; i++)
			turn(world);
		/* One read's; of TLS that is one record's. */
		seen = world->messages;
		assert_true(is_tls ? seen == 1 : seen > 0);
		gate_send(world, samples.data, LINK_HEADER_LEN);
		for (int i = 0; i < 100; i++)
			turn(world);
		assert_int_equal(world->messages, seen);
		world->pauses = false;
		assert_int_equal(link_port_pause(&world->port, false), 0);
		for (int i = 0; world->messages < 52 && i < TURNS; i++)
			turn(world);
		assert_int_equal(world->messages, 52);
		close_world(world);
	}
	buf_fini(&samples);
	free(world);
}

/* Reads nothing while the other side takes nothing, if it is told to. */
static void a_port_waits_when_it_is_behind(void **state)
{
	struct world *world = malloc(sizeof(*world));
	static char block[LINK_DATA_MAX], got[65536];
	struct buf samples;

	(void)state;
	write_samples(&samples);
	for (int is_tls = 0; is_tls < 2; is_tls++) {
		open_world(world, is_tls);
		world->port.waits_when_behind = true;
		/* The peer of TLS takes what there is by pumping; so it does not, for a while. */
		for (int i = 0; i < 224; i++)
			link_write_data(&world->port.out, 5,
					(struct bytes){ block, sizeof(block) });
		assert_int_equal(link_port_flush(&world->port), 0);
		assert_true(link_port_is_behind(&world->port));
		gate_send(world, samples.data, samples.len);
		if (is_tls)
			pump_out(&world->gate);
		for (int i = 0; i < 100; i++)
			assert_int_equal(loop_turn(&loop, 0), 0);
		assert_string_equal(world->text, "");
		for (int i = 0; strcmp(world->text, SAMPLES) != 0 && i < TURNS; i++) {
			turn(world);
			while (gate_receive(world, got, sizeof(got)) > 0)
				;
		}
		assert_string_equal(world->text, SAMPLES);
		close_world(world);
	}
	buf_fini(&samples);
	free(world);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FRESH(messages_arrive_however_they_are_cut),
		FRESH(everything_is_written),
		FRESH(too_much_ends_the_link),
		FRESH(a_fault_is_told_to_the_owner_only),
		FRESH(without_an_owner_the_loop_ends),
		FRESH(a_port_may_be_closed_in_its_callback),
		FRESH(a_paused_port_reads_on_when_it_may),
		FRESH(a_port_waits_when_it_is_behind),
	};

	return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
