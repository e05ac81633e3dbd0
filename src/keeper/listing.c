/* SPDX-License-Identifier: MIT */
/* Telling of runs and meters. */
#include "keeper/listing.h"

#include <string.h>

#include "base/clock.h"
#include "base/money.h"
#include "base/words.h"

static void add_run(struct buf *words, const struct peer *peer)
{
	const struct run *run = peer->run;

	if (run) {
		words_add_pair(words, "runId", run->run_id);
		words_add_pair_number(words, "attempt", run->attempt);
		if (run->account)
			words_add_pair(words, "account", run->account);
		words_add_pair(words, "state", run->is_revoked ? "revoked" : "running");
	} else {
		words_add_pair(words, "state", "open");
	}
	words_add_pair(words, "link", peer_kind_name(peer->kind));
	words_add_pair_number(words, "ageMs", clock_now_ms() - peer->begun_ms);
	words_add_pair_number(words, "exchanges", peer_count_exchanges(peer));
	words_add_pair_number(words, "allowed", peer->allowed);
	words_add_pair_number(words, "refused", peer->refused);
}

static void say_run(struct visitor *visitor, struct buf *words, uint64_t now_ms)
{
	visitor_say_bytes(visitor, STATUS_RUN, (struct bytes){ words->data, words->len }, now_ms);
	buf_fini(words);
}

void listing_list(struct visitor *visitor, struct bytes words, uint64_t now_ms)
{
	const struct peer *peer = visitor->keeper->peers;

	(void)words;
	for (; peer && !visitor->is_over; peer = peer->next) {
		struct buf answer;

		if (!visitor_may_see(visitor, peer))
			continue;
		buf_init(&answer, CONTROL_PACKET_MAX);
		add_run(&answer, peer);
		say_run(visitor, &answer, now_ms);
	}
	visitor_say(visitor, STATUS_DONE, "", now_ms);
}

const struct peer *listing_find(const struct visitor *visitor, const char *run_id)
{
	const struct peer *peer = visitor->keeper->peers;

	while (peer && (!peer->run || strcmp(peer->run->run_id, run_id) != 0))
		peer = peer->next;
	return peer && visitor_may_see(visitor, peer) ? peer : NULL;
}

/* "run.spent=…", "account.bytes=…" and so on. */
static void add_meter(struct buf *words, const struct store_meter *meter)
{
	int len = (int)strcspn(meter->meter, ":");
	char money[MONEY_TEXT_MAX], name[64];

	money_format(meter->spent, money);
	snprintf(name, sizeof(name), "%.*s.spent", len, meter->meter);
	words_add_pair(words, name, money);
	money_format(meter->reserved, money);
	snprintf(name, sizeof(name), "%.*s.reserved", len, meter->meter);
	words_add_pair(words, name, money);
	snprintf(name, sizeof(name), "%.*s.bytes", len, meter->meter);
	words_add_pair_number(words, name, meter->bytes);
	snprintf(name, sizeof(name), "%.*s.concurrent", len, meter->meter);
	words_add_pair_number(words, name, meter->concurrent);
}

static void on_meter(struct store_meter *meter, uint64_t now_ms)
{
	struct visitor *visitor = meter->owner;
	const struct peer *peer;
	struct buf words;

	if (!visitor_take_answer(visitor) || visitor->is_over)
		return;
	peer = listing_find(visitor, visitor->run_id);
	buf_init(&words, CONTROL_PACKET_MAX);
	if (peer)
		add_run(&words, peer);
	else
		words_add_pair(&words, "runId", visitor->run_id);
	for (size_t i = 0; i < ARRAY_LEN(visitor->meters); i++)
		if (visitor->meters[i].meter && visitor->meters[i].verdict == STORE_GRANTED)
			add_meter(&words, &visitor->meters[i]);
	say_run(visitor, &words, now_ms);
	visitor_say(visitor, STATUS_DONE, "", now_ms);
}

bool listing_read_run_id(struct visitor *visitor, struct bytes words)
{
	if (visitor->open_answers > 0 || words.len < 2 || words.len > sizeof(visitor->run_id) ||
	    memchr(words.data, '\0', words.len) != words.data + words.len - 1)
		return false;
	memcpy(visitor->run_id, words.data, words.len);
	return runid_is_valid(visitor->run_id);
}

void listing_show(struct visitor *visitor, struct bytes words, uint64_t now_ms)
{
	struct store *store = visitor->keeper->store;
	const struct peer *peer;
	size_t count = 1;

	if (!listing_read_run_id(visitor, words)) {
		visitor_say(visitor, STATUS_FAILED, "that is no run", now_ms);
		return;
	}
	peer = listing_find(visitor, visitor->run_id);
	if (!peer && !visitor_is_master(visitor)) {
		visitor_say(visitor, STATUS_FAILED, "there is no such run", now_ms);
		return;
	}
	snprintf(visitor->meter_names[0], sizeof(visitor->meter_names[0]), "run:%s",
		 visitor->run_id);
	if (peer && peer->run->account)
		snprintf(visitor->meter_names[count++], sizeof(visitor->meter_names[0]),
			 "account:%s", peer->run->account);
	visitor->open_answers = count;
	for (size_t i = 0; i < ARRAY_LEN(visitor->meters); i++)
		visitor->meters[i] = (struct store_meter){ .on_done = on_meter, .owner = visitor };
	for (size_t i = 0; i < count; i++) {
		visitor->meters[i].meter = visitor->meter_names[i];
		store->ops->read_meter(store, &visitor->meters[i], now_ms);
	}
}
