/* SPDX-License-Identifier: MIT */
/*
 * Many gates of a shared keeper in one process, for benchmarks: what a keeper costs, without what a
 * gate costs. Prints JSON as client does, and waits for input as it does.
 *
 * links CONTROL RUNS AT_ONCE SECONDS BODY_BYTES [TOKENS]
 *	registers so many runs, each with a link, at the control socket. So many requests are
 *	under way at once; when one has its reply, the next run in turn makes the next. With a
 *	file of run tokens there is one link of an open gate, and RUNS means nothing.
 */
#include "link/link.h"
#include "samples.h"
#include "sys/pass.h"
#include "sys/status.h"
#include "tokens.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"

#define SECOND_NS UINT64_C(1000000000)
#define STALL_MS  20000
#define OUT_MAX   (1 << 22)

struct gate {
	int status_fd, link_fd;
	struct link_reader reader;
	struct buf out;
	struct gate *next_dirty;
	bool is_dirty;
};

static struct {
	int epoll_fd;
	struct gate *gates;
	size_t gate_count, next_gate;
	struct gate *dirty;
	struct tokens tokens;
	char *body;
	size_t body_len;
	uint32_t last_exchange;
	uint64_t began_ns[LINK_EXCHANGES_MAX]; /* by number */
	struct samples samples;
	size_t replies; /* before it begins, too */
	bool has_begun;
} links;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * SECOND_NS + (uint64_t)ts.tv_nsec;
}

/* ---- registering ---- */

static void wait_until_ready(struct gate *gate)
{
	static char text[STATUS_TEXT_MAX + 1];
	int type, fd;

	gate->link_fd = -1;
	do {
		type = status_receive_passed(gate->status_fd, STALL_MS, text, NULL, &fd);
		if (type == STATUS_LINK)
			gate->link_fd = fd;
	} while (type == STATUS_LINK || type == STATUS_WORDS);
	if (type != STATUS_READY)
		errx(1, "the keeper: %s", type == STATUS_FAILED ? text : "no answer");
}

static void open_gate(struct gate *gate, const char *control, size_t number)
{
	struct sockaddr_un place = { .sun_family = AF_UNIX };
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = gate };
	char words[64];
	int len, r;

	len = snprintf(words, sizeof(words), "Rrun-id=bench-%05zu%cattempt=0", number, '\0');
	if (links.tokens.len > 0)
		len = snprintf(words, sizeof(words), "O") - 1;
	strncpy(place.sun_path, control, sizeof(place.sun_path) - 1);
	gate->status_fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	if (connect(gate->status_fd, (const struct sockaddr *)&place, sizeof(place)) < 0)
		err(1, "connect to %s", control);
	r = pass_send(gate->status_fd, words, (size_t)len + 1, -1);
	if (r < 0)
		errx(1, "register: %s", strerror(-r));
	wait_until_ready(gate);
	link_reader_init(&gate->reader, LINK_SIDE_KEEPER);
	buf_init(&gate->out, OUT_MAX);
	if (epoll_ctl(links.epoll_fd, EPOLL_CTL_ADD, gate->link_fd, &event) < 0)
		err(1, "epoll_ctl");
}

static void open_gates(const char *control, size_t count)
{
	links.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	links.gates = calloc(count, sizeof(*links.gates));
	if (!links.gates)
		err(1, "calloc");
	links.gate_count = count;
	for (size_t i = 0; i < count; i++)
		open_gate(&links.gates[i], control, i);
}

/* ---- requests ---- */

static void make_body(size_t len)
{
	static const char before[] = "{\"model\":\"bench\",\"stream\":false,\"messages\":"
				     "[{\"role\":\"user\",\"content\":\"";
	static const char after[] = "\"}]}";
	size_t least = sizeof(before) + sizeof(after) - 2;

	links.body_len = len > least ? len : least;
	links.body = malloc(links.body_len);
	if (!links.body)
		err(1, "malloc");
	memset(links.body, 'a', links.body_len);
	memcpy(links.body, before, sizeof(before) - 1);
	memcpy(links.body + links.body_len - (sizeof(after) - 1), after, sizeof(after) - 1);
}

/* What an SDK sends, as the gate tells it. */
static void write_head(struct buf *out, uint32_t id)
{
	static struct link_open open = {
		.method = BYTES("POST"),
		.host = BYTES("127.0.0.1:8080"),
		.path = BYTES("/v1/chat/completions"),
		.kind = LINK_KIND_LLM,
		.minor = 1,
		.framing = FRAMING_LENGTH,
		.fields = {
			{ BYTES("Accept"), BYTES("application/json") },
			{ BYTES("Accept-Encoding"), BYTES("identity") },
			{ BYTES("Content-Type"), BYTES("application/json") },
			{ BYTES("User-Agent"), BYTES("OpenAI/Python 1.54.0") },
			{ BYTES("X-Stainless-Lang"), BYTES("python") },
			{ BYTES("X-Stainless-Package-Version"), BYTES("1.54.0") },
			{ BYTES("X-Stainless-OS"), BYTES("Linux") },
			{ BYTES("X-Stainless-Arch"), BYTES("x64") },
			{ BYTES("X-Stainless-Runtime"), BYTES("CPython") },
			{ BYTES("X-Stainless-Runtime-Version"), BYTES("3.11.2") },
			{ BYTES("X-Stainless-Async"), BYTES("false") },
			{ BYTES("Authorization"), BYTES("Bearer agent-has-no-key") },
			{ BYTES("x-litellm-end-user-id"), BYTES("somebody") },
			{ BYTES("x-stainless-retry-count"), BYTES("0") },
		},
		.field_count = 14,
	};

	open.length = links.body_len;
	if (links.tokens.len > 0) {
		open.fields[14] = (struct http_field){
			BYTES("X-Run-Token"), { tokens_next(&links.tokens), links.tokens.len }
		};
		open.field_count = 15;
	}
	link_write_open(out, id, &open);
}

static void ask(void)
{
	static const struct link_end end;
	struct gate *gate = &links.gates[links.next_gate];
	uint32_t id = ++links.last_exchange;

	links.next_gate = (links.next_gate + 1) % links.gate_count;
	links.began_ns[id % LINK_EXCHANGES_MAX] = now_ns();
	write_head(&gate->out, id);
	for (size_t at = 0; at < links.body_len; at += LINK_DATA_MAX) {
		size_t left = links.body_len - at;

		link_write_data(&gate->out, id,
				(struct bytes){ links.body + at,
						left < LINK_DATA_MAX ? left : LINK_DATA_MAX });
	}
	link_write_end(&gate->out, id, &end);
	if (!gate->is_dirty) {
		gate->is_dirty = true;
		gate->next_dirty = links.dirty;
		links.dirty = gate;
	}
}

/* Once a turn, as a gate does; what is under way fits into a socket. */
static void flush_all(void)
{
	while (links.dirty) {
		struct gate *gate = links.dirty;

		links.dirty = gate->next_dirty;
		gate->is_dirty = false;
		if (send(gate->link_fd, gate->out.data, gate->out.len, MSG_NOSIGNAL) !=
		    (ssize_t)gate->out.len)
			err(1, "write to the link");
		gate->out.len = 0;
	}
}

/* ---- replies ---- */

static void on_message(const struct gate *gate, struct bytes payload)
{
	static struct link_reply reply;
	uint32_t id = gate->reader.exchange;

	switch (gate->reader.type) {
	case LINK_REPLY:
		if (link_parse_reply(payload, &reply) < 0 || reply.status != 200)
			links.samples.errors++;
		break;
	case LINK_ABORT:
	case LINK_END:
		if (gate->reader.type == LINK_ABORT)
			links.samples.errors++;
		samples_add(&links.samples, now_ns() - links.began_ns[id % LINK_EXCHANGES_MAX]);
		links.replies++;
		if (links.has_begun)
			ask();
		break;
	default: /* a body, credit, or what a gate is told at first */
		break;
	}
}

static void on_link(struct gate *gate)
{
	static char data[65536];
	ssize_t n = recv(gate->link_fd, data, sizeof(data), MSG_DONTWAIT);
	struct bytes input = { data, n > 0 ? (size_t)n : 0 }, payload;
	enum link_event event;

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0)
		errx(1, "the keeper has ended a link");
	while ((event = link_read(&gate->reader, &input, &payload)) != LINK_NEEDS_MORE) {
		if (event == LINK_BROKEN)
			errx(1, "what the keeper said is no message");
		if (event == LINK_MESSAGE)
			on_message(gate, payload);
	}
}

static void turn(void)
{
	struct epoll_event events[256];
	int n = epoll_wait(links.epoll_fd, events, 256, 100);

	for (int i = 0; i < n; i++)
		on_link(events[i].data.ptr);
	flush_all();
}

/* A reply for each run: the keeper has its connections then, too. */
static void warm_up(size_t count, size_t at_once)
{
	uint64_t start = now_ns();

	for (size_t asked = 0; links.replies < count;) {
		while (asked < count && asked - links.replies < at_once) {
			ask();
			asked++;
		}
		flush_all();
		turn();
		if (links.samples.errors || now_ns() - start > STALL_MS * SECOND_NS / 1000)
			errx(1, "%zu of %zu replies, %zu errors", links.replies, count,
			     links.samples.errors);
	}
}

int main(int argc, char **argv)
{
	uint64_t start, now, end;
	size_t at_once, warm;

	if (argc != 6 && argc != 7)
		errx(2, "usage: links CONTROL RUNS AT_ONCE SECONDS BODY_BYTES [TOKENS]");
	if (argc == 7)
		tokens_read(&links.tokens, argv[6]);
	at_once = (size_t)atol(argv[3]);
	make_body((size_t)atol(argv[5]));
	open_gates(argv[1], argc == 7 ? 1 : (size_t)atol(argv[2]));
	warm = links.tokens.count > links.gate_count ? links.tokens.count : links.gate_count;
	warm_up(warm > at_once ? warm : at_once, at_once);
	wait_to_begin();
	links.has_begun = true;
	links.samples.count = 0;
	start = now = now_ns();
	end = start + (uint64_t)(atof(argv[4]) * (double)SECOND_NS);
	for (size_t i = 0; i < at_once; i++)
		ask();
	flush_all();
	while (now < end) {
		turn();
		now = now_ns();
	}
	samples_print(&links.samples, "requests", (double)(now - start) / (double)SECOND_NS);
	wait_for_input();
	return 0;
}
