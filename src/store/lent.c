/* SPDX-License-Identifier: MIT */
/* The borrower's end of a lent store. */
#include "store/lent.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/list.h"
#include "store/words.h"
#include "sys/outbox.h"

#define PACKET_MAX 8192

enum asked {
	ASKED_RESERVE,
	ASKED_OPEN,
	ASKED_METER,
	ASKED_REVOKE,
	ASKED_CALL,
};

/* A question without its answer. */
struct question {
	struct question *next, **at;
	enum asked kind;
	uint64_t seq, due_ms;
	void *object;
};

struct lent {
	struct store store; /* first */
	struct loop_source source;
	struct loop_timer timer;
	int fd;               /* owned */
	struct outbox outbox; /* what it does not take at once */
	struct question *questions;
	uint64_t last_seq;
};

/* ---- answers ---- */

/* Each fills in its answer; `words` are what follows the verdict. */
static void answer_reserve(void *object, enum store_verdict verdict, struct bytes words,
			   uint64_t now_ms)
{
	struct store_reservation *reservation = object;
	uint64_t claim = 0;

	reservation->verdict = verdict;
	if (!words_next_number(&words, &claim) || claim >= STORE_CLAIMS_MAX ||
	    !words_next_number(&words, &reservation->retry_ms))
		reservation->retry_ms = claim = 0;
	reservation->refused_claim = (size_t)claim;
	reservation->on_done(reservation, now_ms);
}

static void answer_open(void *object, enum store_verdict verdict, struct bytes words,
			uint64_t now_ms)
{
	struct store_run *run = object;

	run->verdict = verdict;
	if (!words_next_number(&words, &run->begun_at))
		run->begun_at = 0;
	run->on_done(run, now_ms);
}

static void answer_meter(void *object, enum store_verdict verdict, struct bytes words,
			 uint64_t now_ms)
{
	struct store_meter *meter = object;

	meter->verdict = verdict;
	if (!words_next_number(&words, &meter->bytes) ||
	    !words_next_number(&words, &meter->spent) ||
	    !words_next_number(&words, &meter->reserved) ||
	    !words_next_number(&words, &meter->concurrent))
		meter->bytes = meter->spent = meter->reserved = meter->concurrent = 0;
	meter->on_done(meter, now_ms);
}

static void answer_revoke(void *object, enum store_verdict verdict, struct bytes words,
			  uint64_t now_ms)
{
	struct store_revocation *revocation = object;

	(void)words;
	revocation->verdict = verdict;
	revocation->on_done(revocation, now_ms);
}

static void answer_call(void *object, enum store_verdict verdict, struct bytes words,
			uint64_t now_ms)
{
	struct store_call *call = object;
	uint64_t was_known = 0;

	call->verdict = verdict;
	if (!words_next_number(&words, &was_known) || !words_next_number(&words, &call->counted))
		call->counted = was_known = 0;
	call->was_known = was_known;
	call->on_done(call, now_ms);
}

static void (*const answers[])(void *, enum store_verdict, struct bytes, uint64_t) = {
	[ASKED_RESERVE] = answer_reserve, [ASKED_OPEN] = answer_open, [ASKED_METER] = answer_meter,
	[ASKED_REVOKE] = answer_revoke,   [ASKED_CALL] = answer_call,
};

static void answer(struct lent *lent, struct question *question, enum store_verdict verdict,
		   struct bytes words, uint64_t now_ms)
{
	enum asked kind = question->kind;
	void *object = question->object;

	LIST_REMOVE(question);
	free(question);
	if (!lent->questions)
		loop_cancel(lent->store.loop, &lent->timer);
	answers[kind](object, verdict, words, now_ms);
}

static void fail_all(struct lent *lent, uint64_t now_ms)
{
	while (lent->questions) {
		lent->store.failure_count++;
		answer(lent, lent->questions, STORE_UNREACHABLE, (struct bytes){ "", 0 }, now_ms);
	}
}

/* The successor is gone; nobody else has the store. */
static void lose(struct lent *lent, uint64_t now_ms)
{
	loop_remove(lent->store.loop, &lent->source);
	loop_cancel(lent->store.loop, &lent->timer);
	close_fd(&lent->fd);
	outbox_fini(&lent->outbox);
	lent->store.is_reachable = false;
	snprintf(lent->store.fault, sizeof(lent->store.fault),
		 "the keeper that this one was replaced by is gone");
	fail_all(lent, now_ms);
}

static int watch(struct lent *lent)
{
	return loop_change(lent->store.loop, &lent->source,
			   LOOP_READ | (outbox_len(&lent->outbox) > 0 ? LOOP_WRITE : 0));
}

static void on_answer(struct lent *lent, struct bytes words, uint64_t now_ms)
{
	uint64_t seq, verdict;

	if (!words_next_number(&words, &seq) || !words_next_number(&words, &verdict) ||
	    verdict > STORE_UNREACHABLE)
		return;
	for (struct question *question = lent->questions; question; question = question->next) {
		if (question->seq == seq) {
			answer(lent, question, (enum store_verdict)verdict, words, now_ms);
			return;
		}
	}
}

static void on_news(struct lent *lent, struct bytes words, uint64_t now_ms)
{
	uint64_t news;
	const char *about;

	if (words_next_number(&words, &news) && (about = words_next(&words)) && lent->store.on_news)
		lent->store.on_news(&lent->store, (enum store_news)news, about, now_ms);
}

static void on_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct lent *lent = OWNER_OF(source, struct lent, source);
	char packet[PACKET_MAX];
	ssize_t n;
	struct bytes words;

	if ((ready & LOOP_WRITE) &&
	    (outbox_flush(&lent->outbox, lent->fd) < 0 || watch(lent) < 0)) {
		lose(lent, now_ms);
		return;
	}
	n = recv(lent->fd, packet, sizeof(packet), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		lose(lent, now_ms);
		return;
	}
	words = (struct bytes){ packet + 1, (size_t)n - 1 };
	if (packet[0] == 'a')
		on_answer(lent, words, now_ms);
	else if (packet[0] == 'n')
		on_news(lent, words, now_ms);
}

/* ---- questions ---- */

static void send_packet(struct lent *lent, char letter, struct buf *packet, uint64_t now_ms)
{
	if (lent->fd >= 0 && (outbox_send(&lent->outbox, lent->fd, (enum status_type)letter,
					  (struct bytes){ packet->data, packet->len }) < 0 ||
			      watch(lent) < 0))
		lose(lent, now_ms);
	buf_fini(packet);
}

/* Answers come in the order of the questions; the last in the list is the oldest. */
static void on_due(struct loop_timer *timer, uint64_t now_ms)
{
	struct lent *lent = OWNER_OF(timer, struct lent, timer);
	const struct question *oldest = lent->questions;

	while (oldest && oldest->next)
		oldest = oldest->next;
	if (oldest && oldest->due_ms > now_ms)
		loop_set_timer(lent->store.loop, timer, oldest->due_ms);
	else if (oldest)
		lose(lent, now_ms);
}

/* Begins a packet that is answered. */
static void begin(struct lent *lent, enum asked kind, void *object, struct buf *packet,
		  uint64_t now_ms)
{
	struct question *question = calloc(1, sizeof(*question));

	if (!question)
		die_no_memory();
	question->kind = kind;
	question->object = object;
	question->seq = ++lent->last_seq;
	question->due_ms = now_ms + STORE_ANSWER_MS;
	LIST_ADD(&lent->questions, question);
	if (!lent->timer.place)
		loop_set_timer(lent->store.loop, &lent->timer, now_ms + STORE_ANSWER_MS);
	buf_init(packet, PACKET_MAX);
	words_add_number(packet, question->seq);
}

/* What cannot be asked is answered. */
static void ask(struct lent *lent, char letter, struct buf *packet, uint64_t now_ms)
{
	if (lent->fd < 0) {
		buf_fini(packet);
		fail_all(lent, now_ms);
		return;
	}
	send_packet(lent, letter, packet, now_ms);
}

static void reserve(struct store *store, struct store_reservation *first, uint64_t now_ms)
{
	struct lent *lent = (struct lent *)(void *)store;

	for (struct store_reservation *next; first; first = next) {
		struct buf packet;

		next = first->next;
		begin(lent, ASKED_RESERVE, first, &packet, now_ms);
		words_add(&packet, first->id);
		words_add(&packet, first->run_id);
		words_add(&packet, first->account);
		words_add_number(&packet, first->attempt);
		words_add_number(&packet, first->bytes);
		words_add_number(&packet, first->spend);
		for (size_t i = 0; i < first->claim_count; i++) {
			const struct limits *limits = &first->claims[i].limits;

			words_add(&packet, first->claims[i].meter);
			words_add_number(&packet, limits->rate_milli);
			words_add_number(&packet, limits->burst);
			words_add_number(&packet, limits->concurrent);
			words_add_number(&packet, limits->bytes);
			words_add_number(&packet, limits->spend);
		}
		ask(lent, 'r', &packet, now_ms);
	}
}

static void open_run(struct store *store, struct store_run *run, uint64_t now_ms)
{
	struct lent *lent = (struct lent *)(void *)store;
	struct buf packet;

	begin(lent, ASKED_OPEN, run, &packet, now_ms);
	words_add(&packet, run->run_id);
	words_add(&packet, run->account);
	words_add_number(&packet, run->attempt);
	ask(lent, 'o', &packet, now_ms);
}

static void read_meter(struct store *store, struct store_meter *meter, uint64_t now_ms)
{
	struct lent *lent = (struct lent *)(void *)store;
	struct buf packet;

	begin(lent, ASKED_METER, meter, &packet, now_ms);
	words_add(&packet, meter->meter);
	ask(lent, 'm', &packet, now_ms);
}

static void revoke_run(struct store *store, struct store_revocation *revocation, uint64_t now_ms)
{
	struct lent *lent = (struct lent *)(void *)store;
	struct buf packet;

	begin(lent, ASKED_REVOKE, revocation, &packet, now_ms);
	words_add(&packet, revocation->run_id);
	ask(lent, 'x', &packet, now_ms);
}

static void settle(struct store *store, const struct store_settlement *settlement, uint64_t now_ms)
{
	struct buf packet;

	buf_init(&packet, PACKET_MAX);
	words_add(&packet, settlement->id);
	words_add_number(&packet, settlement->bytes);
	words_add_number(&packet, settlement->is_cost_known);
	words_add_number(&packet, settlement->cost);
	words_add(&packet, settlement->call_id);
	send_packet((struct lent *)(void *)store, 's', &packet, now_ms);
}

static void close_run(struct store *store, const char *run_id, uint64_t now_ms)
{
	struct buf packet;

	buf_init(&packet, PACKET_MAX);
	words_add(&packet, run_id);
	send_packet((struct lent *)(void *)store, 'c', &packet, now_ms);
}

static void reconcile(struct store *store, struct store_call *call, uint64_t now_ms)
{
	struct lent *lent = (struct lent *)(void *)store;
	struct buf packet;

	begin(lent, ASKED_CALL, call, &packet, now_ms);
	words_add(&packet, call->call_id);
	words_add(&packet, call->run_id);
	words_add(&packet, call->account);
	words_add_number(&packet, call->attempt);
	words_add_number(&packet, call->cost);
	ask(lent, 'k', &packet, now_ms);
}

static void release_before(struct store *store, uint64_t before_s, uint64_t now_ms)
{
	struct buf packet;

	buf_init(&packet, PACKET_MAX);
	words_add_number(&packet, before_s);
	send_packet((struct lent *)(void *)store, 'b', &packet, now_ms);
}

static void close_store(struct store *store)
{
	struct lent *lent = (struct lent *)(void *)store;

	lose(lent, clock_now_ms());
	free(lent);
}

static const struct store_ops ops = {
	.name = "lent",
	.is_of_one_process = true,
	.reserve = reserve,
	.settle = settle,
	.open_run = open_run,
	.close_run = close_run,
	.revoke = revoke_run,
	.read_meter = read_meter,
	.reconcile = reconcile,
	.release_before = release_before,
	.close = close_store,
};

struct store *store_lent_new(struct loop *loop, int fd)
{
	struct lent *lent = calloc(1, sizeof(*lent));

	if (!lent)
		die_no_memory();
	lent->store = (struct store){ .ops = &ops, .loop = loop, .is_reachable = true };
	lent->fd = fd;
	outbox_init(&lent->outbox);
	lent->timer.on_due = on_due;
	lent->source = (struct loop_source){ .fd = -1, .on_ready = on_ready };
	if (runid_new(lent->store.keeper_id) < 0 ||
	    loop_add(loop, &lent->source, fd, LOOP_READ) < 0)
		lose(lent, clock_now_ms());
	return &lent->store;
}
