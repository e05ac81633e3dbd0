/* SPDX-License-Identifier: MIT */
/* The keeper's end of a link. From here on the bytes may be the agent's. */
#include "keeper/run.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/die.h"
#include "keeper/exchange.h"

/* ---- writing ---- */

static size_t out_len(const struct run *run)
{
	return run->out.len - run->out_start;
}

/* The gate keeps up again, or no more: origins are read accordingly. */
static void set_stalled(struct run *run, bool is_stalled)
{
	if (run->is_stalled == is_stalled)
		return;
	run->is_stalled = is_stalled;
	for (size_t i = 0; i < LINK_EXCHANGES_MAX; i++)
		if (run->by_id[i] && run->by_id[i]->state == EXCHANGE_RELAY)
			exchange_set_interest(run->by_id[i]);
}

void run_flush(struct run *run)
{
	struct loop *loop = &run->keeper->loop;

	while (out_len(run) > 0) {
		ssize_t n = send(run->link.fd, run->out.data + run->out_start, out_len(run),
				 MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			loop_end(loop); /* no gate, no run */
			return;
		}
		run->out_start += (size_t)n;
	}
	if (out_len(run) == 0 || run->out_start > RUN_OUT_HIGH) {
		memmove(run->out.data, run->out.data + run->out_start, out_len(run));
		run->out.len = out_len(run);
		run->out_start = 0;
	}
	if (run->out.len == RUN_OUT_MAX ||
	    loop_change(loop, &run->link, LOOP_READ | (out_len(run) ? LOOP_WRITE : 0)) < 0)
		loop_end(loop);
	set_stalled(run, out_len(run) > RUN_OUT_HIGH);
}

/* ---- reading ---- */

static struct exchange *find_exchange(struct run *run, uint32_t id)
{
	struct exchange *exchange = run->by_id[id % LINK_EXCHANGES_MAX];

	return exchange && exchange->id == id ? exchange : NULL;
}

static int on_message(struct run *run, enum link_event event, struct bytes payload, uint64_t now_ms)
{
	uint32_t id = run->reader.exchange, credit;
	struct exchange *exchange;

	if (event == LINK_MESSAGE && run->reader.type == LINK_OPEN)
		return exchange_open(run, id, payload, now_ms);
	exchange = find_exchange(run, id);
	if (!exchange)
		return 0; /* ended on our side while this was under way */
	if (event == LINK_PIECE)
		return exchange_on_data(exchange, payload, now_ms);
	switch (run->reader.type) {
	case LINK_END:
		return exchange_on_end(exchange, now_ms);
	case LINK_CREDIT:
		if (link_parse_credit(payload, &credit) < 0 ||
		    credit > UINT32_MAX - exchange->credit)
			return -EPROTO;
		exchange_on_credit(exchange, credit, now_ms);
		return 0;
	case LINK_ABORT:
		exchange_cancel(exchange, "agent_gone", now_ms);
		return 0;
	default:
		return -EPROTO;
	}
}

/* Everything in one read; any fault ends the link, and with it the run. */
static int read_link(struct run *run, uint64_t now_ms)
{
	static char data[KEEPER_INPUT_SIZE]; /* an exchange may need keeper->input meanwhile */
	ssize_t n = recv(run->link.fd, data, sizeof(data), 0);
	struct bytes input, payload;
	enum link_event event;
	int r = 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return n < 0 ? -errno : -EPIPE;
	input = (struct bytes){ data, (size_t)n };
	do {
		event = link_read(&run->reader, &input, &payload);
		if (event == LINK_BROKEN)
			return -EPROTO;
		if (event != LINK_NEEDS_MORE)
			r = on_message(run, event, payload, now_ms);
	} while (r == 0 && event != LINK_NEEDS_MORE);
	return r;
}

static void on_link(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct run *run = (struct run *)(void *)((char *)source - offsetof(struct run, link));

	if ((ready & LOOP_READ) && read_link(run, now_ms) < 0)
		loop_end(&run->keeper->loop);
}

/* ---- opening and closing ---- */

int run_open(struct keeper *keeper, int link_fd, struct run **ret_run)
{
	const struct keeper_config *config = keeper->config;
	struct run *run = calloc(1, sizeof(*run));
	int r;

	if (!run)
		die_no_memory();
	run->keeper = keeper;
	run->link = (struct loop_source){ .fd = -1, .on_ready = on_link };
	run->attempt = (uint32_t)config->attempt;
	if (config->run_id)
		snprintf(run->run_id, sizeof(run->run_id), "%s", config->run_id);
	buf_init(&run->out, RUN_OUT_MAX);
	link_reader_init(&run->reader, LINK_SIDE_GATE);
	r = loop_add(&keeper->loop, &run->link, link_fd, LOOP_READ);
	if (r < 0) {
		free(run);
		return r;
	}
	if (run->run_id[0])
		link_write_hello(&run->out, bytes_of(run->run_id), run->attempt);
	run_flush(run);
	*ret_run = run;
	return 0;
}

void run_close(struct run *run)
{
	for (size_t i = 0; i < LINK_EXCHANGES_MAX; i++)
		if (run->by_id[i])
			exchange_cancel(run->by_id[i], "gate_gone", clock_now_ms());
	loop_remove(&run->keeper->loop, &run->link);
	link_reader_fini(&run->reader);
	buf_fini(&run->out);
}
