/* SPDX-License-Identifier: MIT */
/*
 * A gate that is no longer ours, and an origin that never was, with a keeper between them that is
 * real. The input is steps of both, in any order and any number of them in a turn of the keeper's
 * loop: requests, credit for all of what has come at once, bodies that are only announced, replies
 * that wait, and bytes of the input as they are. Whatever they do, the keeper lives, nothing of a
 * reply is sent beyond its credit, and what waits for the gate has a limit (INV-BOUNDED).
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "keeper/keeper.h"
#include "keeper/peer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CONNECTIONS_MAX 256
#define EXCHANGES_MAX   4096 /* one after the other */
#define STEPS_MAX       4000

/* Behind what a gate is late by: the answers to all that one read may bring. */
#define BURST_MAX (1 << 20)

static struct world {
	struct keeper keeper;
	struct peer *peer;         /* NULL: its link has ended */
	struct loop_source source; /* ready in every turn */
	struct bytes input;
	size_t step_count;
	int gate_fd;
	struct buf to_keeper;
	struct link_reader from_keeper;
	bool is_raw; /* bytes of the input were said on the link: nobody knows what they mean */
	uint32_t last_exchange;
	uint32_t windows[EXCHANGES_MAX];  /* what the keeper may still send */
	uint32_t received[EXCHANGES_MAX]; /* what it has sent, and was not granted again */
	int connections[CONNECTIONS_MAX];
	size_t connection_count;
} world;

static struct charter *charter;
static int listener_fd, ready_fd;
static char audit_path[] = "/tmp/fuzz-peer-XXXXXX";
static char block[65536];

static void check(bool is_true)
{
	if (!is_true)
		abort();
}

/* ---- the input ---- */

static size_t next_number(size_t len)
{
	struct bytes bytes = bytes_take(&world.input,
					world.input.len < len ? world.input.len : len);
	size_t value = 0;

	for (size_t i = 0; i < bytes.len; i++)
		value = value << 8 | (unsigned char)bytes.data[i];
	return value;
}

static struct bytes next_bytes(void)
{
	size_t len = next_number(1);

	return bytes_take(&world.input, world.input.len < len ? world.input.len : len);
}

/* One that there was; 0 is nobody's. */
static uint32_t next_exchange(void)
{
	return 1 + (uint32_t)next_number(1) % (world.last_exchange + 1);
}

/* ---- the gate ---- */

static void open_exchange(uint8_t kind, const char *method, uint8_t framing, uint64_t length)
{
	static struct link_open open;
	uint32_t id = world.last_exchange + 1;

	if (id == EXCHANGES_MAX)
		return;
	open = (struct link_open){
		.kind = kind,
		.minor = 1,
		.method = bytes_of(method),
		.host = BYTES("api.test:80"),
		.path = BYTES("/v1/models"),
		.framing = framing,
		.length = length,
		.fields = { { BYTES("content-type"), BYTES("application/json") } },
		.field_count = 1,
	};
	world.last_exchange = id;
	world.windows[id] = LINK_CREDIT_FIRST;
	link_write_open(&world.to_keeper, id, &open);
}

static void open_get(void)
{
	open_exchange(LINK_KIND_LLM, "GET", FRAMING_NONE, 0);
}

static void open_post(void)
{
	open_exchange(LINK_KIND_LLM, "POST", FRAMING_CHUNKED, 0);
}

/* A body to a host, of any length that can be said. */
static void open_host(void)
{
	uint64_t length = (uint64_t)next_number(1) << next_number(1) % 64;

	length %= HTTP_LENGTH_MAX + 1;
	open_exchange(LINK_KIND_EGRESS, "POST", length ? FRAMING_LENGTH : FRAMING_NONE, length);
}

static void send_data(void)
{
	uint32_t id = next_exchange();
	struct bytes data = next_bytes();

	if (data.len > 0)
		link_write_data(&world.to_keeper, id, data);
}

static void end_request(void)
{
	static const struct link_end no_trailer;

	link_write_end(&world.to_keeper, next_exchange(), &no_trailer);
}

static void grant(uint32_t id)
{
	if (world.received[id] == 0)
		return;
	link_write_credit(&world.to_keeper, id, world.received[id]);
	world.windows[id] += world.received[id];
	world.received[id] = 0;
}

static void grant_one(void)
{
	uint32_t id = next_exchange();

	if (id <= world.last_exchange)
		grant(id);
}

static void grant_all(void)
{
	for (uint32_t id = 1; id <= world.last_exchange; id++)
		grant(id);
}

static void abort_request(void)
{
	link_write_abort(&world.to_keeper, next_exchange());
}

static void say_refused(void)
{
	const struct link_refused refused = { .code = BYTES("code"),
					      .method = next_bytes(),
					      .path = next_bytes() };

	world.is_raw = true; /* it need not be a method */
	link_write_refused(&world.to_keeper, 1 + world.last_exchange, &refused);
}

static void say_anything(void)
{
	struct bytes bytes = next_bytes();

	world.is_raw = true;
	buf_add(&world.to_keeper, bytes.data, bytes.len);
}

static void hear(enum link_event event, struct bytes payload)
{
	static union {
		struct link_reply reply;
		struct link_end end;
	} parsed;
	enum link_type type = world.from_keeper.type;
	uint32_t id = world.from_keeper.exchange;

	if (event == LINK_PIECE) {
		if (world.is_raw || id > world.last_exchange)
			return;
		check(payload.len <= world.windows[id]);
		world.windows[id] -= (uint32_t)payload.len;
		world.received[id] += (uint32_t)payload.len;
	} else if (type == LINK_REPLY) {
		check(link_parse_reply(payload, &parsed.reply) == 0);
	} else if (type == LINK_END) {
		check(link_parse_end(payload, &parsed.end) == 0);
	}
}

static void listen_to_keeper(void)
{
	static char data[65536];
	struct bytes input, payload;
	enum link_event event;
	ssize_t n;

	while ((n = recv(world.gate_fd, data, sizeof(data), 0)) > 0) {
		input = (struct bytes){ data, (size_t)n };
		while ((event = link_read(&world.from_keeper, &input, &payload)) !=
		       LINK_NEEDS_MORE) {
			check(event != LINK_BROKEN);
			hear(event, payload);
		}
	}
}

static void speak(void)
{
	struct buf *out = &world.to_keeper;
	ssize_t n = out->len ? send(world.gate_fd, out->data, out->len, MSG_NOSIGNAL) : 0;

	if (n > 0)
		buf_keep(out, (struct bytes){ out->data + n, out->len - (size_t)n });
}

/* ---- the origin ---- */

static void welcome(void)
{
	static const struct linger at_once = { .l_onoff = 1 };
	int fd;

	while ((fd = accept4(listener_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		if (world.connection_count < CONNECTIONS_MAX)
			world.connections[world.connection_count++] = fd;
		else
			close(fd);
	}
}

static int next_connection(void)
{
	size_t number = next_number(1);

	return world.connection_count ? world.connections[number % world.connection_count] : -1;
}

static void send_to(int fd, const char *data, size_t len)
{
	if (fd >= 0 && send(fd, data, len, MSG_NOSIGNAL) < 0)
		return; /* whatever becomes of it */
}

static void begin_reply(int fd)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";

	/* What was asked for does not matter. */
	while (fd >= 0 && recv(fd, block, sizeof(block), 0) > 0)
		;
	send_to(fd, head, sizeof(head) - 1);
	for (int i = 0; i < 3; i++)
		send_to(fd, block, sizeof(block));
}

static void begin_one_reply(void)
{
	begin_reply(next_connection());
}

static void begin_all_replies(void)
{
	for (size_t i = 0; i < world.connection_count; i++)
		begin_reply(world.connections[i]);
}

static void send_more(void)
{
	int fd = next_connection();

	send_to(fd, block, 1 + next_number(2));
}

static void send_anything(void)
{
	int fd = next_connection();
	struct bytes bytes = next_bytes();

	send_to(fd, bytes.data, bytes.len);
}

static void end_connection(void)
{
	size_t number = next_number(1);

	if (world.connection_count)
		close_fd(&world.connections[number % world.connection_count]);
}

/* ---- turns ---- */

/* The configuration is read again, and is what it was. */
static void reload(void)
{
	struct err err;

	check(peer_renew(world.peer, charter, clock_now_ms(), &err) == 0);
}

static void step(void)
{
	static void (*const steps[])(void) = {
		NULL, /* the turn ends */
		open_get,
		open_post,
		open_host,
		send_data,
		end_request,
		grant_one,
		grant_all,
		abort_request,
		say_refused,
		say_anything,
		listen_to_keeper,
		begin_one_reply,
		begin_all_replies,
		send_more,
		send_anything,
		end_connection,
		reload,
	};
	size_t number = 0;

	do {
		number = next_number(1) % ARRAY_LEN(steps);
		if (steps[number])
			steps[number]();
	} while (number > 0 && world.input.len > 0 && ++world.step_count < STEPS_MAX);
	speak();
	welcome();
}

static void on_step(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	const struct link_port *link;

	(void)source;
	(void)ready;
	(void)now_ms;
	if (!world.peer || world.input.len == 0 || world.step_count >= STEPS_MAX) {
		loop_end(&world.keeper.loop);
		return;
	}
	link = &world.peer->link;
	check(link->out.len - link->out_start <= LINK_PORT_HIGH + BURST_MAX);
	step();
}

static void on_peer_over(struct peer *peer, uint64_t now_ms)
{
	(void)peer;
	(void)now_ms;
	world.peer = NULL;
}

/* ---- the world ---- */

static void remove_audit(void)
{
	unlink(audit_path);
}

static void make_charter(void)
{
	static struct keeper_config config;
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t len = sizeof(address);
	char llm[64], host[64];
	const char *argv[] = { "keeper",      "--llm",        llm, "--allow-net",
			       "api.test:80", "--connect-to", host };
	struct err err;
	int fd;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	check(bind(listener_fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
	      listen(listener_fd, 2 * CONNECTIONS_MAX) == 0 &&
	      getsockname(listener_fd, (struct sockaddr *)&address, &len) == 0);
	snprintf(llm, sizeof(llm), "http://127.0.0.1:%u", ntohs(address.sin_port));
	snprintf(host, sizeof(host), "api.test:80=127.0.0.1:%u", ntohs(address.sin_port));
	keeper_config_init(&config);
	check(keeper_config_parse(&config, ARRAY_LEN(argv), (char **)argv, &err) == 0 &&
	      charter_new(&config, &charter, &err) == 0);
	fd = mkstemp(audit_path);
	ready_fd = eventfd(1, EFD_CLOEXEC);
	check(fd >= 0 && ready_fd >= 0 && atexit(remove_audit) == 0);
	close(fd);
}

static void begin_run(void)
{
	const struct run_spec spec = { .run_id = "r-1" };
	struct stream link;
	struct err err;
	int fds[2];

	check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	world.gate_fd = fds[0];
	stream_init_plain(&link, fds[1]);
	check(truncate(audit_path, 0) == 0);
	check(keeper_open(&world.keeper, charter, &err) == 0 &&
	      keeper_open_audit(&world.keeper, audit_path, &err) == 0 &&
	      peer_open(&world.keeper, &link, run_new(charter, &spec, &err), PEER_LOCAL,
			&world.peer, &err) == 0);
	world.peer->on_over = on_peer_over;
	buf_init(&world.to_keeper, 1 << 20);
	link_reader_init(&world.from_keeper, LINK_SIDE_KEEPER);
}

static void end_run(void)
{
	keeper_close(&world.keeper);
	close_fd(&world.gate_fd);
	welcome(); /* who is late */
	for (size_t i = 0; i < world.connection_count; i++)
		close_fd(&world.connections[i]);
	buf_fini(&world.to_keeper);
	link_reader_fini(&world.from_keeper);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!charter)
		make_charter();
	world = (struct world){ .input = { (const char *)data, size } };
	begin_run();
	world.source = (struct loop_source){ .fd = -1, .on_ready = on_step };
	check(loop_add(&world.keeper.loop, &world.source, ready_fd, LOOP_READ) == 0);
	check(keeper_serve(&world.keeper) == 0);
	end_run();
	return 0;
}
