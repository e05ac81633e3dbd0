/* SPDX-License-Identifier: MIT */
/* Connections to upstreams, and those of them that wait. */
#include "keeper/origin.h"

#include <stdlib.h>

#include "base/die.h"
#include "base/list.h"

static bool is_shared(const struct origin *origin)
{
	return origin->wire == &wire_h2;
}

static void free_origin(struct loop_deferred *deferred)
{
	struct origin *origin = (struct origin *)(void *)deferred;

	h1_reader_fini(&origin->reader);
	buf_fini(&origin->in);
	free(origin);
}

static void leave_list(struct origin *origin)
{
	if (!origin->at)
		return;
	LIST_REMOVE(origin);
	origin->at = NULL;
	if (!is_shared(origin))
		origin->upstream->idle_count--;
}

void origin_close(struct origin *origin)
{
	struct loop *loop = &origin->keeper->loop;

	leave_list(origin);
	loop_cancel(loop, &origin->timer);
	loop_remove(loop, &origin->source);
	stream_close(&origin->stream);
	loop_defer(loop, &origin->deferred);
}

static void on_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct origin *origin = OWNER_OF(source, struct origin, source);

	/* TLS may have to write to read, and the other way round: both are tried. */
	(void)ready;
	origin->wire->on_ready(origin, now_ms);
}

static void on_idle_over(struct loop_timer *timer, uint64_t now_ms)
{
	struct origin *origin = OWNER_OF(timer, struct origin, timer);

	(void)now_ms;
	origin->wire->lose(origin);
}

struct origin *origin_new(struct peer *peer, struct upstream *upstream, const struct stream *stream,
			  const struct wire *wire)
{
	struct origin *origin = calloc(1, sizeof(*origin));

	if (!origin)
		die_no_memory();
	origin->deferred.free = free_origin;
	origin->source = (struct loop_source){ .fd = -1, .on_ready = on_ready };
	origin->timer.on_due = on_idle_over;
	origin->keeper = peer->keeper;
	origin->peer = peer;
	origin->upstream = upstream;
	origin->wire = wire;
	origin->stream = *stream;
	h1_reader_init(&origin->reader, true);
	buf_init(&origin->in, KEEPER_INPUT_SIZE);
	if (loop_add(&peer->keeper->loop, &origin->source, stream->fd, LOOP_READ) < 0) {
		stream_close(&origin->stream);
		free_origin(&origin->deferred);
		return NULL;
	}
	return origin;
}

struct origin *origin_find(struct upstream *upstream)
{
	for (struct origin *origin = upstream->shared; origin; origin = origin->next)
		if (!upstream->is_http1_only && !origin->is_over && h2_may_request(origin->h2))
			return origin;
	return upstream->idle;
}

void origin_set_idle(struct origin *origin, uint64_t until_ms)
{
	struct upstream *upstream = origin->upstream;

	if (!is_shared(origin)) {
		if (upstream->idle_count == ORIGIN_IDLE_MAX || upstream->keeps_none) {
			origin_close(origin);
			return;
		}
		LIST_ADD(&upstream->idle, origin);
		upstream->idle_count++;
	}
	loop_set_timer(&origin->keeper->loop, &origin->timer, until_ms);
}

void origin_set_busy(struct origin *origin)
{
	loop_cancel(&origin->keeper->loop, &origin->timer);
	if (!is_shared(origin))
		leave_list(origin);
	else if (!origin->at)
		LIST_ADD(&origin->upstream->shared, origin);
}

void origin_set_interest(struct origin *origin, bool wants_read, bool wants_write)
{
	unsigned int interest = stream_interest(&origin->stream, wants_read, wants_write);
	int r = 0;

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
