/* SPDX-License-Identifier: MIT */
/* The store in Redis: what is asked, how it is put into a script's words, and what comes back. */
#include "store/redis.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "store/redis_session.h"
#include "store/watch.h"

#define NEWS_MS      900 /* and a way there and back: within a second */
#define NEWS_METERS  256 /* in one question */
#define NEWS_RUNS    256
#define RELEASE_MANY 500

struct redis {
	struct store store;
	struct redis_session session;
	struct watch watch;
	struct loop_timer news;
	size_t news_count; /* questions for news under way */
	bool knows_revoked;
	uint64_t last_revoked;        /* the number of the last revocation that is known here */
	struct store_release release; /* before_s is 0 when there is none to be done */
	uint64_t release_passed;      /* so many of what is kept have been looked at, and stay */
	bool is_releasing;
	struct loop_deferred deferred;
};

static struct redis *redis_of(struct store *store)
{
	return OWNER_OF(store, struct redis, store);
}

static struct redis *owner_of(const struct redis_task *task)
{
	return OWNER_OF(task->session, struct redis, session);
}

static void submit(struct store *store, const struct redis_kind *kind, void *request,
		   uint64_t now_ms)
{
	struct redis_task *task = redis_task_new(&redis_of(store)->session, kind);

	task->request = request;
	redis_task_submit(task, now_ms);
}

/* Every answer that is none is counted. */
static enum store_verdict unreachable(const struct redis_task *task)
{
	task->session->store->failure_count++;
	return STORE_UNREACHABLE;
}

static const struct {
	struct bytes name;
	enum store_verdict verdict;
} verdicts[] = {
	{ BYTES("granted"), STORE_GRANTED }, { BYTES("rate"), STORE_NO_RATE },
	{ BYTES("place"), STORE_NO_PLACE },  { BYTES("bytes"), STORE_NO_BYTES },
	{ BYTES("money"), STORE_NO_MONEY },  { BYTES("revoked"), STORE_IS_REVOKED },
	{ BYTES("link"), STORE_HAS_LINK },
};

static enum store_verdict verdict_of(const struct redis_task *task, const struct redisReply *reply)
{
	struct bytes name = redis_reply_text(reply, 0);

	for (size_t i = 0; i < ARRAY_LEN(verdicts); i++)
		if (bytes_equal(name, verdicts[i].name))
			return verdicts[i].verdict;
	return unreachable(task);
}

static bool stays_owed(struct redis_task *task, uint64_t now_ms)
{
	(void)task;
	(void)now_ms;
	return true;
}

/* ---- settling ---- */

static void add_settle(const struct redis_task *task, struct redis_words *words)
{
	redis_add_keeper(words, task->session);
	redis_add_text(words, task->id);
	redis_add_number(words, task->bytes);
	if (task->is_cost_known)
		redis_add_number(words, task->cost);
	else
		redis_add_text(words, "");
	redis_add_text(words, task->call_id);
}

static const struct redis_kind settle_kind = {
	.script = REDIS_SETTLE,
	.add_words = add_settle,
	.on_lost = stays_owed,
};

static void settle(struct store *store, const struct store_settlement *settlement, uint64_t now_ms)
{
	struct redis_task *task = redis_task_new(&redis_of(store)->session, &settle_kind);

	snprintf(task->id, sizeof(task->id), "%s", settlement->id);
	snprintf(task->call_id, sizeof(task->call_id), "%s", settlement->call_id);
	task->bytes = settlement->bytes;
	task->is_cost_known = settlement->is_cost_known;
	task->cost = settlement->cost;
	redis_task_submit(task, now_ms);
}

/* ---- reserving ---- */

static void add_reserve(const struct redis_task *task, struct redis_words *words)
{
	const struct store_reservation *reservation = task->request;

	redis_add_keeper(words, task->session);
	redis_add_text(words, reservation->id);
	redis_add_text(words, reservation->run_id);
	redis_add_number(words, reservation->bytes);
	redis_add_number(words, reservation->spend);
	redis_add_number(words, reservation->more);
	redis_add_number(words, reservation->is_more);
	for (size_t i = 0; i < reservation->claim_count; i++) {
		const struct limits *limits = &reservation->claims[i].limits;

		redis_add_text(words, reservation->claims[i].meter);
		redis_add_number(words, limits->rate);
		redis_add_number(words, limits->burst);
		redis_add_number(words, limits->concurrent);
		redis_add_number(words, limits->bytes);
		redis_add_number(words, store_spend_limit(reservation, i));
	}
}

static void on_reserved(struct redis_task *task, const struct redisReply *reply, uint64_t now_ms)
{
	struct store_reservation *reservation = task->request;

	reservation->verdict = verdict_of(task, reply);
	reservation->refused_claim = redis_reply_number(reply, 1);
	reservation->retry_ms = redis_reply_number(reply, 2);
	reservation->granted_bytes = redis_reply_number(reply, 3);
	reservation->on_done(reservation, now_ms);
}

/*
 * One that was sent may have been granted: it is settled, with nothing used. What it may have got
 * for a hold that there is goes with that.
 */
static bool on_reserve_lost(struct redis_task *task, uint64_t now_ms)
{
	struct store_reservation *reservation = task->request;

	if (task->was_sent && !reservation->is_more) {
		struct redis_task *back = redis_task_new(task->session, &settle_kind);

		snprintf(back->id, sizeof(back->id), "%s", reservation->id);
		back->is_cost_known = true;
		redis_task_owe(back);
	}
	reservation->verdict = unreachable(task);
	reservation->on_done(reservation, now_ms);
	return false;
}

static const struct redis_kind reserve_kind = {
	.script = REDIS_RESERVE,
	.add_words = add_reserve,
	.on_answer = on_reserved,
	.on_lost = on_reserve_lost,
};

static void reserve(struct store *store, struct store_reservation *first, uint64_t now_ms)
{
	struct watch *watch = &redis_of(store)->watch;

	while (first) {
		struct store_reservation *reservation = first;

		first = first->next;
		reservation->refused_claim = 0;
		reservation->retry_ms = 0;
		watch_claims(watch, reservation);
		submit(store, &reserve_kind, reservation, now_ms);
	}
}

/* ---- runs ---- */

static void add_run(const struct redis_task *task, struct redis_words *words)
{
	redis_add_keeper(words, task->session);
	redis_add_text(words, task->id);
}

static const struct redis_kind close_kind = {
	.script = REDIS_CLOSE,
	.add_words = add_run,
	.on_lost = stays_owed,
};

static struct redis_task *run_task_new(struct redis_session *session, const struct redis_kind *kind,
				       const char *run_id)
{
	struct redis_task *task = redis_task_new(session, kind);

	snprintf(task->id, sizeof(task->id), "%s", run_id);
	return task;
}

static void begin_watch(struct redis *redis, const char *run_id, uint64_t now_ms)
{
	watch_open(&redis->watch, run_id);
	if (!redis->news.place && redis->news_count == 0)
		loop_set_timer(redis->store.loop, &redis->news, now_ms + NEWS_MS);
}

static void add_open(const struct redis_task *task, struct redis_words *words)
{
	const struct store_run *run = task->request;

	add_run(task, words);
	redis_add_number(words, run->has_no_link);
	redis_add_number(words, run->age_ms);
}

static void on_opened(struct redis_task *task, const struct redisReply *reply, uint64_t now_ms)
{
	struct redis *redis = owner_of(task);
	struct store_run *run = task->request;

	run->verdict = verdict_of(task, reply);
	run->begun_ms = redis_reply_number(reply, 1);
	if (run->verdict == STORE_GRANTED && !run->has_no_link)
		begin_watch(redis, task->id, now_ms);
	run->on_done(run, now_ms);
}

/* One that was sent may have made the link. */
static bool on_open_lost(struct redis_task *task, uint64_t now_ms)
{
	struct store_run *run = task->request;

	if (task->was_sent && !run->has_no_link)
		redis_task_owe(run_task_new(task->session, &close_kind, task->id));
	run->verdict = unreachable(task);
	run->on_done(run, now_ms);
	return false;
}

static const struct redis_kind open_kind = {
	.script = REDIS_OPEN,
	.add_words = add_open,
	.on_answer = on_opened,
	.on_lost = on_open_lost,
};

static void open_run(struct store *store, struct store_run *run, uint64_t now_ms)
{
	struct redis_task *task = run_task_new(&redis_of(store)->session, &open_kind, run->run_id);

	task->request = run;
	redis_task_submit(task, now_ms);
}

static void watch_run(struct store *store, const char *run_id, bool is_on)
{
	if (is_on)
		begin_watch(redis_of(store), run_id, clock_now_ms());
	else
		watch_close(&redis_of(store)->watch, run_id);
}

static void close_run(struct store *store, const char *run_id, uint64_t now_ms)
{
	struct redis *redis = redis_of(store);

	watch_close(&redis->watch, run_id);
	redis_task_submit(run_task_new(&redis->session, &close_kind, run_id), now_ms);
}

static void tell(struct redis *redis, enum store_news news, const char *about, uint64_t now_ms)
{
	if (redis->store.on_news)
		redis->store.on_news(&redis->store, news, about, now_ms);
}

static void add_revoke(const struct redis_task *task, struct redis_words *words)
{
	redis_add_text(words, ((const struct store_revocation *)task->request)->run_id);
}

static void on_revoked(struct redis_task *task, const struct redisReply *reply, uint64_t now_ms)
{
	struct store_revocation *revocation = task->request;
	struct redis *redis = owner_of(task);

	(void)reply;
	if (watch_is_revoked(&redis->watch, revocation->run_id))
		tell(redis, STORE_NEWS_REVOKED, revocation->run_id, now_ms);
	revocation->verdict = STORE_GRANTED;
	revocation->on_done(revocation, now_ms);
}

static bool on_revoke_lost(struct redis_task *task, uint64_t now_ms)
{
	struct store_revocation *revocation = task->request;

	revocation->verdict = unreachable(task);
	revocation->on_done(revocation, now_ms);
	return false;
}

static const struct redis_kind revoke_kind = {
	.script = REDIS_REVOKE,
	.add_words = add_revoke,
	.on_answer = on_revoked,
	.on_lost = on_revoke_lost,
};

static void revoke_run(struct store *store, struct store_revocation *revocation, uint64_t now_ms)
{
	submit(store, &revoke_kind, revocation, now_ms);
}

/* ---- meters ---- */

static void add_read(const struct redis_task *task, struct redis_words *words)
{
	redis_add_text(words, ((const struct store_meter *)task->request)->meter);
}

static void on_read(struct redis_task *task, const struct redisReply *reply, uint64_t now_ms)
{
	struct store_meter *meter = task->request;

	meter->verdict = STORE_GRANTED;
	meter->bytes = redis_reply_number(reply, 0);
	meter->spent = redis_reply_number(reply, 1);
	meter->reserved = redis_reply_number(reply, 2);
	meter->concurrent = redis_reply_number(reply, 3);
	meter->on_done(meter, now_ms);
}

static bool on_read_lost(struct redis_task *task, uint64_t now_ms)
{
	struct store_meter *meter = task->request;

	meter->verdict = unreachable(task);
	meter->on_done(meter, now_ms);
	return false;
}

static const struct redis_kind read_kind = {
	.script = REDIS_READ,
	.add_words = add_read,
	.on_answer = on_read,
	.on_lost = on_read_lost,
};

static void read_meter(struct store *store, struct store_meter *meter, uint64_t now_ms)
{
	submit(store, &read_kind, meter, now_ms);
}

/* ---- reconciliation ---- */

static void add_reconcile(const struct redis_task *task, struct redis_words *words)
{
	const struct store_call *call = task->request;

	redis_add_bytes(words, bytes_cut(bytes_of(call->call_id), STORE_CALL_ID_MAX));
	redis_add_text(words, call->run_id);
	redis_add_text(words, call->account);
	redis_add_number(words, call->cost);
}

static void on_reconciled(struct redis_task *task, const struct redisReply *reply, uint64_t now_ms)
{
	struct store_call *call = task->request;

	call->verdict = STORE_GRANTED;
	call->was_known = redis_reply_number(reply, 0) > 0;
	call->counted = redis_reply_number(reply, 1);
	call->on_done(call, now_ms);
}

static bool on_reconcile_lost(struct redis_task *task, uint64_t now_ms)
{
	struct store_call *call = task->request;

	call->verdict = unreachable(task);
	call->on_done(call, now_ms);
	return false;
}

static const struct redis_kind reconcile_kind = {
	.script = REDIS_RECONCILE,
	.add_words = add_reconcile,
	.on_answer = on_reconciled,
	.on_lost = on_reconcile_lost,
};

static void reconcile(struct store *store, struct store_call *call, uint64_t now_ms)
{
	submit(store, &reconcile_kind, call, now_ms);
}

static void send_release(struct redis *redis, uint64_t now_ms);

static void add_release(const struct redis_task *task, struct redis_words *words)
{
	const struct redis *redis = owner_of(task);

	redis_add_text(words, redis->release.logs);
	redis_add_number(words, redis->release.since_s);
	redis_add_number(words, redis->release.before_s);
	redis_add_number(words, RELEASE_MANY);
	redis_add_number(words, redis->release_passed);
}

static void on_released(struct redis_task *task, const struct redisReply *reply, uint64_t now_ms)
{
	struct redis *redis = owner_of(task);
	uint64_t next = redis_reply_number(reply, 0);

	redis->is_releasing = false;
	if (redis->release.before_s == task->bytes) { /* there is no newer one */
		redis->release_passed = next > 0 ? next - 1 : 0;
		if (next == 0)
			redis->release.before_s = 0;
	}
	send_release(redis, now_ms);
}

static bool on_release_lost(struct redis_task *task, uint64_t now_ms)
{
	(void)now_ms;
	owner_of(task)->is_releasing = false;
	return false;
}

static const struct redis_kind release_kind = {
	.script = REDIS_RELEASE,
	.add_words = add_release,
	.on_answer = on_released,
	.on_lost = on_release_lost,
};

/* Some at a time, until there are none left: Redis has other things to do as well. */
static void send_release(struct redis *redis, uint64_t now_ms)
{
	struct redis_task *task;

	if (redis->is_releasing || redis->release.before_s == 0)
		return;
	redis->is_releasing = true;
	task = redis_task_new(&redis->session, &release_kind);
	task->bytes = redis->release.before_s;
	redis_task_submit(task, now_ms);
}

static void release(struct store *store, const struct store_release *read, uint64_t now_ms)
{
	struct redis *redis = redis_of(store);

	redis->release = *read;
	redis->release_passed = 0;
	send_release(redis, now_ms);
}

/* ---- news ---- */

static void add_news(const struct redis_task *task, struct redis_words *words)
{
	const char *name = task->names.data;

	redis_add_number(words, owner_of(task)->last_revoked);
	redis_add_number(words, NEWS_RUNS);
	for (; name && name < task->names.data + task->names.len; name += strlen(name) + 1)
		redis_add_text(words, name);
}

static void end_news(struct redis *redis, bool has_more, uint64_t now_ms)
{
	assert(redis->news_count > 0);
	redis->news_count--;
	if (redis->news_count == 0 && redis->session.is_ready && watch_has_runs(&redis->watch))
		loop_set_timer(redis->store.loop, &redis->news,
			       has_more ? now_ms : now_ms + NEWS_MS);
}

static void on_news(struct redis_task *task, const struct redisReply *reply, uint64_t now_ms)
{
	struct redis *redis = owner_of(task);
	size_t run_count = redis_reply_number(reply, 1), i = 2;
	const char *name = task->names.data;

	redis->last_revoked = redis_reply_number(reply, 0);
	for (; i < 2 + run_count && i < redis_reply_count(reply); i++) {
		const char *run_id = redis_reply_text(reply, i).data;

		if (watch_is_revoked(&redis->watch, run_id))
			tell(redis, STORE_NEWS_REVOKED, run_id, now_ms);
	}
	for (; i < redis_reply_count(reply); i++, name += strlen(name) + 1)
		if (watch_is_spent(&redis->watch, name, redis_reply_number(reply, i)))
			tell(redis, STORE_NEWS_NO_MONEY, name, now_ms);
	end_news(redis, run_count == NEWS_RUNS, now_ms);
}

static bool on_news_lost(struct redis_task *task, uint64_t now_ms)
{
	end_news(owner_of(task), false, now_ms);
	return false;
}

static const struct redis_kind news_kind = {
	.script = REDIS_NEWS,
	.add_words = add_news,
	.on_answer = on_news,
	.on_lost = on_news_lost,
};

/* Names are gathered until there are enough for a question. */
struct gathering {
	struct redis *redis;
	struct redis_task *task; /* NULL: the next name begins one */
	size_t count;
	uint64_t now_ms;
};

static void send_gathered(struct gathering *gathering)
{
	gathering->redis->news_count++;
	redis_task_submit(gathering->task, gathering->now_ms);
	gathering->task = NULL;
	gathering->count = 0;
}

static void gather(void *owner, const char *meter)
{
	struct gathering *gathering = owner;

	if (!gathering->task)
		gathering->task = redis_task_new(&gathering->redis->session, &news_kind);
	buf_add(&gathering->task->names, meter, strlen(meter) + 1);
	if (++gathering->count == NEWS_METERS)
		send_gathered(gathering);
}

static void ask_for_news(struct redis *redis, uint64_t now_ms)
{
	struct gathering gathering = { .redis = redis, .now_ms = now_ms };

	if (redis->news_count > 0 || !watch_has_runs(&redis->watch))
		return;
	gathering.task = redis_task_new(&redis->session, &news_kind);
	watch_each_meter(&redis->watch, gather, &gathering);
	if (gathering.task)
		send_gathered(&gathering);
}

static void on_news_due(struct loop_timer *timer, uint64_t now_ms)
{
	struct redis *redis = OWNER_OF(timer, struct redis, news);

	ask_for_news(redis, now_ms);
	redis_wire_flush(redis->session.wire, now_ms);
}

/* ---- the store ---- */

static void on_ready(struct redis_session *session, uint64_t now_ms)
{
	struct redis *redis = OWNER_OF(session, struct redis, session);

	if (!redis->knows_revoked)
		redis->last_revoked = session->revoked_before;
	redis->knows_revoked = true;
	send_release(redis, now_ms);
	ask_for_news(redis, now_ms);
}

static void on_down(struct redis_session *session, uint64_t now_ms)
{
	struct redis *redis = OWNER_OF(session, struct redis, session);

	(void)now_ms;
	loop_cancel(redis->store.loop, &redis->news);
}

static void flush(struct store *store, uint64_t now_ms)
{
	redis_wire_flush(redis_of(store)->session.wire, now_ms);
}

static void free_redis(struct loop_deferred *deferred)
{
	struct redis *redis = OWNER_OF(deferred, struct redis, deferred);

	redis_session_fini(&redis->session);
	watch_fini(&redis->watch);
	free(redis);
}

static void close_store(struct store *store)
{
	struct redis *redis = redis_of(store);

	redis_session_stop(&redis->session);
	/* It may be one of its own answers that led here. */
	redis->deferred.free = free_redis;
	loop_defer(store->loop, &redis->deferred);
}

static const struct store_ops ops = {
	.name = "redis",
	.reserve = reserve,
	.settle = settle,
	.open_run = open_run,
	.watch = watch_run,
	.close_run = close_run,
	.revoke = revoke_run,
	.read_meter = read_meter,
	.reconcile = reconcile,
	.release = release,
	.flush = flush,
	.close = close_store,
};

struct store *store_redis_new(struct loop *loop, const char *url, struct err *err)
{
	struct redis *redis = calloc(1, sizeof(*redis));
	int r;

	if (!redis)
		die_no_memory();
	redis->store = (struct store){ .ops = &ops, .loop = loop };
	snprintf(redis->store.fault, sizeof(redis->store.fault), "not connected to Redis so far");
	redis->news.on_due = on_news_due;
	redis->session.store = &redis->store;
	redis->session.alive_ms = STORE_ALIVE_MS;
	redis->session.on_ready = on_ready;
	redis->session.on_down = on_down;
	r = redis_url_parse(url, &redis->session.url, err);
	if (r == 0) {
		r = runid_new(redis->store.keeper_id);
		if (r < 0)
			err_set(err, -r, "make an id for this keeper");
	}
	if (r < 0) {
		free(redis);
		return NULL;
	}
	redis_session_start(&redis->session);
	return &redis->store;
}

void store_redis_set_alive(struct store *store, uint64_t alive_ms)
{
	redis_of(store)->session.alive_ms = alive_ms;
}
