/* SPDX-License-Identifier: MIT */
/* The lender's end of a lent store. */
#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/list.h"
#include "store/anew.h"
#include "store/lent.h"
#include "store/table.h"
#include "store/words.h"
#include "sys/outbox.h"

#define PACKET_MAX 8192

/* A run that the borrower has open. */
struct lent_run {
	struct lent_run *next, **at;
	uint64_t begun_ms;
	char run_id[RUNID_MAX + 1];
};

/* A reservation that it was granted and has not settled. */
struct lent_hold {
	struct table_entry entry;
	struct store_reservation *reservation; /* owned, with its texts */
};

struct lender {
	struct loop_deferred deferred; /* first: freed at the end of a turn */
	struct store *store;
	struct loop_source source;
	int fd;               /* owned */
	struct outbox outbox; /* what it does not take at once */
	struct lent_run *runs;
	struct table holds; /* by their ids */
	size_t open_count;  /* questions that the store has not answered */
	void (*on_over)(void *owner);
	void *owner;
	bool is_over;
};

/* What the store is asked for the borrower; the texts are in `packet`. */
struct lent_question {
	union {
		struct store_reservation reservation;
		struct store_run run;
		struct store_meter meter;
		struct store_revocation revocation;
		struct store_call call;
	};
	struct lender *lender;
	uint64_t seq;
	char packet[PACKET_MAX];
};

/* ---- ending ---- */

static void free_lender(struct loop_deferred *deferred)
{
	free(deferred);
}

static void give_up(struct lender *lender)
{
	if (!lender->is_over || lender->open_count > 0)
		return;
	lender->deferred.free = free_lender;
	loop_defer(lender->store->loop, &lender->deferred);
}

static void forget_hold(struct lender *lender, struct lent_hold *hold)
{
	table_remove(&lender->holds, &hold->entry);
	reservation_free(hold->reservation);
	free(hold);
}

/* Nobody will say what became of it. */
static void keep_holds(struct lender *lender, uint64_t now_ms)
{
	struct table_walk walk = { 0 };
	struct table_entry *entry;

	while ((entry = table_walk(&lender->holds, &walk))) {
		struct lent_hold *hold = OWNER_OF(entry, struct lent_hold, entry);
		const struct store_settlement unknown = {
			.id = hold->reservation->id,
			.bytes = hold->reservation->granted_bytes,
			.call_id = "",
		};

		lender->store->ops->settle(lender->store, &unknown, now_ms);
		forget_hold(lender, hold);
	}
	table_fini(&lender->holds);
}

void lender_free(struct lender *lender)
{
	uint64_t now_ms = clock_now_ms();

	if (!lender || lender->is_over)
		return;
	lender->is_over = true;
	if (lender->on_over)
		lender->on_over(lender->owner);
	loop_remove(lender->store->loop, &lender->source);
	close_fd(&lender->fd);
	outbox_fini(&lender->outbox);
	keep_holds(lender, now_ms);
	while (lender->runs) {
		struct lent_run *run = lender->runs;

		LIST_REMOVE(run);
		lender->store->ops->close_run(lender->store, run->run_id, now_ms);
		free(run);
	}
	give_up(lender);
}

/* ---- answers ---- */

static int watch(struct lender *lender)
{
	return loop_change(lender->store->loop, &lender->source,
			   LOOP_READ | (outbox_len(&lender->outbox) > 0 ? LOOP_WRITE : 0));
}

/* Who cannot be told anything may have said something: it is over when all of that was read. */
static void send_packet(struct lender *lender, char letter, struct buf *packet)
{
	if (!lender->is_over && (outbox_send(&lender->outbox, lender->fd, (enum status_type)letter,
					     (struct bytes){ packet->data, packet->len }) < 0 ||
				 watch(lender) < 0))
		shutdown(lender->fd, SHUT_RDWR);
	buf_fini(packet);
}

/* The numbers that follow the verdict; the question is done with. */
static void reply(struct lent_question *question, enum store_verdict verdict,
		  const uint64_t *numbers, size_t count)
{
	struct lender *lender = question->lender;
	struct buf packet;

	buf_init(&packet, PACKET_MAX);
	words_add_number(&packet, question->seq);
	words_add_number(&packet, verdict);
	for (size_t i = 0; i < count; i++)
		words_add_number(&packet, numbers[i]);
	send_packet(lender, 'a', &packet);
	free(question);
	lender->open_count--;
	give_up(lender);
}

static struct lent_hold *find_hold(struct lender *lender, const char *id)
{
	struct table_entry *entry = table_find(&lender->holds, id);

	return entry ? OWNER_OF(entry, struct lent_hold, entry) : NULL;
}

static void note_hold(struct lender *lender, const struct store_reservation *reservation)
{
	struct lent_hold *hold = find_hold(lender, reservation->id);

	if (hold && reservation->is_more)
		hold->reservation->granted_bytes += reservation->granted_bytes;
	if (hold || reservation->is_more)
		return;
	hold = calloc(1, sizeof(*hold));
	if (!hold)
		die_no_memory();
	hold->reservation = reservation_copy(reservation);
	table_add(&lender->holds, &hold->entry, hold->reservation->id);
}

static void on_reserved(struct store_reservation *reservation, uint64_t now_ms)
{
	const uint64_t numbers[] = { reservation->refused_claim, reservation->retry_ms,
				     reservation->granted_bytes };
	const struct store_settlement nothing = { .id = reservation->id,
						  .is_cost_known = true,
						  .call_id = "" };
	struct lent_question *question = (struct lent_question *)(void *)reservation;
	struct store *store = question->lender->store;

	if (reservation->verdict == STORE_GRANTED && question->lender->is_over &&
	    !reservation->is_more)
		store->ops->settle(store, &nothing, now_ms);
	else if (reservation->verdict == STORE_GRANTED)
		note_hold(question->lender, reservation);
	reply(question, reservation->verdict, numbers, ARRAY_LEN(numbers));
}

static void on_opened(struct store_run *run, uint64_t now_ms)
{
	const uint64_t numbers[] = { run->begun_ms };
	struct lent_question *question = (struct lent_question *)(void *)run;
	struct lender *lender = question->lender;
	bool is_open = run->verdict == STORE_GRANTED && !run->has_no_link;
	struct lent_run *open;

	if (is_open && lender->is_over) {
		lender->store->ops->close_run(lender->store, run->run_id, now_ms);
	} else if (is_open) {
		open = calloc(1, sizeof(*open));
		if (!open)
			die_no_memory();
		open->begun_ms = run->begun_ms;
		snprintf(open->run_id, sizeof(open->run_id), "%s", run->run_id);
		LIST_ADD(&lender->runs, open);
	}
	reply(question, run->verdict, numbers, ARRAY_LEN(numbers));
}

static void on_meter(struct store_meter *meter, uint64_t now_ms)
{
	const uint64_t numbers[] = { meter->bytes, meter->spent, meter->reserved,
				     meter->concurrent };

	(void)now_ms;
	reply((struct lent_question *)(void *)meter, meter->verdict, numbers, ARRAY_LEN(numbers));
}

static void on_revoked(struct store_revocation *revocation, uint64_t now_ms)
{
	(void)now_ms;
	reply((struct lent_question *)(void *)revocation, revocation->verdict, NULL, 0);
}

static void on_told(struct store_call *call, uint64_t now_ms)
{
	const uint64_t numbers[] = { call->was_known, call->counted };

	(void)now_ms;
	reply((struct lent_question *)(void *)call, call->verdict, numbers, ARRAY_LEN(numbers));
}

/* ---- questions ---- */

/* The store may answer at once, and then it is gone: nobody touches it after asking. */
static struct lent_question *question_new(struct lender *lender, struct bytes *words)
{
	struct lent_question *question = calloc(1, sizeof(*question));

	if (!question)
		die_no_memory();
	question->lender = lender;
	memcpy(question->packet, words->data, words->len);
	words->data = question->packet;
	return question;
}

static bool read_claim(struct bytes *words, struct store_claim *claim)
{
	struct limits *limits = &claim->limits;

	return words_next_number(words, &limits->rate) &&
	       words_next_number(words, &limits->burst) &&
	       words_next_number(words, &limits->concurrent) &&
	       words_next_number(words, &limits->bytes) && words_next_number(words, &limits->spend);
}

static bool ask_reserve(struct lent_question *question, struct bytes words, uint64_t now_ms)
{
	struct store *store = question->lender->store;
	struct store_reservation *reservation = &question->reservation;
	const char *id = words_next(&words);
	uint64_t attempt = 0, is_of_money = 0, is_more = 0;

	if (!id || strlen(id) >= STORE_ID_MAX)
		return false;
	*reservation = (struct store_reservation){ .on_done = on_reserved };
	memcpy(reservation->id, id, strlen(id) + 1);
	reservation->run_id = words_next(&words);
	reservation->account = words_next(&words);
	if (!reservation->run_id || !reservation->account || !words_next_number(&words, &attempt) ||
	    !words_next_number(&words, &is_of_money) ||
	    !words_next_number(&words, &reservation->bytes) ||
	    !words_next_number(&words, &reservation->spend) ||
	    !words_next_number(&words, &reservation->more) || !words_next_number(&words, &is_more))
		return false;
	reservation->is_more = is_more;
	reservation->attempt = (uint32_t)attempt;
	reservation->is_of_money = is_of_money;
	while (words.len > 0 && reservation->claim_count < STORE_CLAIMS_MAX) {
		struct store_claim *claim = &reservation->claims[reservation->claim_count++];

		claim->meter = words_next(&words);
		if (!claim->meter || !read_claim(&words, claim))
			return false;
	}
	if (words.len > 0)
		return false;
	store->ops->reserve(store, reservation, now_ms);
	return true;
}

static bool ask_open(struct lent_question *question, struct bytes words, uint64_t now_ms)
{
	struct store *store = question->lender->store;
	struct store_run *run = &question->run;
	uint64_t attempt, has_no_link;

	*run = (struct store_run){ .on_done = on_opened };
	run->run_id = words_next(&words);
	run->account = words_next(&words);
	if (!run->run_id || !runid_is_valid(run->run_id) || !run->account ||
	    !words_next_number(&words, &attempt) || !words_next_number(&words, &has_no_link) ||
	    !words_next_number(&words, &run->age_ms))
		return false;
	run->attempt = (uint32_t)attempt;
	run->has_no_link = has_no_link;
	store->ops->open_run(store, run, now_ms);
	return true;
}

static bool ask_meter(struct lent_question *question, struct bytes words, uint64_t now_ms)
{
	struct store *store = question->lender->store;

	question->meter = (struct store_meter){ .on_done = on_meter };
	question->meter.meter = words_next(&words);
	if (!question->meter.meter)
		return false;
	store->ops->read_meter(store, &question->meter, now_ms);
	return true;
}

static bool ask_revoke(struct lent_question *question, struct bytes words, uint64_t now_ms)
{
	struct store *store = question->lender->store;

	question->revocation = (struct store_revocation){ .on_done = on_revoked };
	question->revocation.run_id = words_next(&words);
	if (!question->revocation.run_id)
		return false;
	store->ops->revoke(store, &question->revocation, now_ms);
	return true;
}

static bool ask_call(struct lent_question *question, struct bytes words, uint64_t now_ms)
{
	struct store *store = question->lender->store;
	struct store_call *call = &question->call;
	uint64_t attempt;

	*call = (struct store_call){ .on_done = on_told };
	call->call_id = words_next(&words);
	call->run_id = words_next(&words);
	call->account = words_next(&words);
	if (!call->call_id || !call->run_id || !call->account ||
	    !words_next_number(&words, &attempt) || !words_next_number(&words, &call->cost))
		return false;
	call->attempt = (uint32_t)attempt;
	store->ops->reconcile(store, call, now_ms);
	return true;
}

/* ---- what is not answered ---- */

static bool settle(struct lender *lender, struct bytes words, uint64_t now_ms)
{
	struct store_settlement settlement;
	struct lent_hold *hold;

	if (!words_next_settlement(&words, &settlement))
		return false;
	hold = find_hold(lender, settlement.id);
	if (hold)
		forget_hold(lender, hold);
	lender->store->ops->settle(lender->store, &settlement, now_ms);
	return true;
}

static bool close_run(struct lender *lender, struct bytes words, uint64_t now_ms)
{
	const char *run_id = words_next(&words);
	struct lent_run *run = lender->runs;

	while (run && run_id && strcmp(run->run_id, run_id) != 0)
		run = run->next;
	if (!run || !run_id)
		return true;
	LIST_REMOVE(run);
	lender->store->ops->close_run(lender->store, run->run_id, now_ms);
	free(run);
	return true;
}

static bool release(struct lender *lender, struct bytes words, uint64_t now_ms)
{
	struct store_release read;

	if (!words_next_release(&words, &read))
		return false;
	lender->store->ops->release(lender->store, &read, now_ms);
	return true;
}

/* ---- packets ---- */

static const struct {
	char letter;
	bool (*ask)(struct lent_question *question, struct bytes words, uint64_t now_ms);
	bool (*tell)(struct lender *lender, struct bytes words, uint64_t now_ms);
} packets[] = {
	{ 'r', ask_reserve, NULL }, { 'o', ask_open, NULL }, { 'm', ask_meter, NULL },
	{ 'x', ask_revoke, NULL },  { 'k', ask_call, NULL }, { 's', NULL, settle },
	{ 'c', NULL, close_run },   { 'b', NULL, release },
};

static bool handle(struct lender *lender, char letter, struct bytes words, uint64_t now_ms)
{
	struct lent_question *question;

	for (size_t i = 0; i < ARRAY_LEN(packets); i++) {
		if (packets[i].letter != letter)
			continue;
		if (packets[i].tell)
			return packets[i].tell(lender, words, now_ms);
		question = question_new(lender, &words);
		lender->open_count++;
		if (words_next_number(&words, &question->seq) &&
		    packets[i].ask(question, words, now_ms))
			return true;
		lender->open_count--;
		free(question);
	}
	return false;
}

static void on_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct lender *lender = OWNER_OF(source, struct lender, source);
	char packet[PACKET_MAX];
	ssize_t n;

	if ((ready & LOOP_WRITE) &&
	    (outbox_flush(&lender->outbox, lender->fd) < 0 || watch(lender) < 0))
		outbox_fini(&lender->outbox);
	n = recv(lender->fd, packet, sizeof(packet), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0 && packet[n - 1] == '\0' &&
	    handle(lender, packet[0], (struct bytes){ packet + 1, (size_t)n - 1 }, now_ms))
		return;
	lender_free(lender);
}

void lender_tell(struct lender *lender, enum store_news news, const char *about)
{
	struct buf packet;

	if (lender->is_over)
		return;
	buf_init(&packet, PACKET_MAX);
	words_add_number(&packet, news);
	words_add(&packet, about);
	send_packet(lender, 'n', &packet);
}

void lender_set_store(struct lender *lender, struct store *store)
{
	uint64_t now_ms = clock_now_ms();
	struct table_walk walk = { 0 };
	const struct table_entry *entry;

	lender->store = store;
	for (struct lent_run *run = lender->runs; run; run = run->next)
		store_reopen_run(store, run->run_id, run->begun_ms, false, now_ms);
	while ((entry = table_walk(&lender->holds, &walk)))
		store_retake(store, OWNER_OF(entry, struct lent_hold, entry)->reservation, now_ms);
}

void lender_set_on_over(struct lender *lender, void (*on_over)(void *owner), void *owner)
{
	lender->on_over = on_over;
	lender->owner = owner;
}

struct lender *lender_new(struct store *store, int fd)
{
	struct lender *lender = calloc(1, sizeof(*lender));

	if (!lender)
		die_no_memory();
	lender->store = store;
	lender->fd = fd;
	outbox_init(&lender->outbox);
	table_init(&lender->holds);
	lender->source = (struct loop_source){ .fd = -1, .on_ready = on_ready };
	if (loop_add(store->loop, &lender->source, fd, LOOP_READ) < 0)
		die_no_memory();
	return lender;
}
