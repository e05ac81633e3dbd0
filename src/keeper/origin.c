/* SPDX-License-Identifier: MIT */
/* Connections to upstreams, and those of them that wait. */
#include "keeper/origin.h"

#include <stdlib.h>

#include "base/die.h"
#include "base/list.h"
#include "keeper/exchange.h"

static void free_origin(struct loop_deferred *deferred)
{
	struct origin *origin = (struct origin *)(void *)deferred;

	h1_reader_fini(&origin->reader);
	buf_fini(&origin->in);
	free(origin);
}

static void leave_pool(struct origin *origin)
{
	if (!origin->at)
		return;
	LIST_REMOVE(origin);
	origin->at = NULL;
	origin->upstream->idle_count--;
	loop_cancel(&origin->keeper->loop, &origin->timer);
}

void origin_close(struct origin *origin)
{
	struct loop *loop = &origin->keeper->loop;

	leave_pool(origin);
	loop_remove(loop, &origin->source);
	stream_close(&origin->stream);
	loop_defer(loop, &origin->deferred);
}

static void on_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct origin *origin = OWNER_OF(source, struct origin, source);

	/* One that waits has nothing to say: it ends, or it is out of step. */
	if (!origin->exchange)
		origin_close(origin);
	else
		exchange_on_ready(origin->exchange, ready, now_ms);
}

static void on_idle_over(struct loop_timer *timer, uint64_t now_ms)
{
	(void)now_ms;
	origin_close(OWNER_OF(timer, struct origin, timer));
}

struct origin *origin_new(struct exchange *exchange, const struct stream *stream)
{
	struct origin *origin = calloc(1, sizeof(*origin));

	if (!origin)
		die_no_memory();
	origin->deferred.free = free_origin;
	origin->source = (struct loop_source){ .fd = -1, .on_ready = on_ready };
	origin->timer.on_due = on_idle_over;
	origin->keeper = exchange->run->keeper;
	origin->upstream = exchange->upstream;
	origin->exchange = exchange;
	origin->stream = *stream;
	h1_reader_init(&origin->reader, true);
	buf_init(&origin->in, KEEPER_INPUT_SIZE);
	if (loop_add(&origin->keeper->loop, &origin->source, stream->fd, LOOP_READ) < 0) {
		stream_close(&origin->stream);
		free_origin(&origin->deferred);
		return NULL;
	}
	return origin;
}

struct origin *origin_find(struct exchange *exchange)
{
	struct origin *origin = exchange->upstream->idle;

	if (!origin)
		return NULL;
	leave_pool(origin);
	origin->exchange = exchange;
	return origin;
}

void origin_give_back(struct origin *origin, uint64_t now_ms)
{
	struct upstream *upstream = origin->upstream;

	origin->exchange = NULL;
	if (upstream->idle_count == ORIGIN_IDLE_MAX || origin->stream.has_pending) {
		origin_close(origin);
		return;
	}
	h1_reader_next(&origin->reader);
	LIST_ADD(&upstream->idle, origin);
	upstream->idle_count++;
	loop_set_timer(&origin->keeper->loop, &origin->timer, now_ms + ORIGIN_IDLE_MS);
	origin_set_interest(origin, true, false);
}

void origin_set_interest(struct origin *origin, bool wants_read, bool wants_write)
{
	unsigned int interest = 0;
	int r = 0;

	if (wants_read)
		interest |= origin->read_waits ? origin->read_waits : LOOP_READ;
	if (wants_write)
		interest |= origin->write_waits ? origin->write_waits : LOOP_WRITE;
	/* One that is waited for in no way is not watched: its end would be told turn after turn.
	 */
	if (interest == 0)
		loop_remove(&origin->keeper->loop, &origin->source);
	else if (origin->source.fd < 0)
		r = loop_add(&origin->keeper->loop, &origin->source, origin->stream.fd, interest);
	else
		r = loop_change(&origin->keeper->loop, &origin->source, interest);
	if (r < 0)
		die_no_memory(); /* nothing else can be wrong with it */
}
