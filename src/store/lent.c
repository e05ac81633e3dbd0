/* SPDX-License-Identifier: MIT */
/* The borrower's end of a lent store. */
#include "store/lent.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/die.h"
#include "store/words.h"
#include "sys/outbox.h"

#define PACKET_MAX 8192
#define ITEMS_MAX  65536 /* what may wait for an answer, or to be told */
#define NAME_MAX   (STORE_ID_MAX > RUNID_MAX ? STORE_ID_MAX : RUNID_MAX)

enum item_kind {
	ASKED_RESERVE,
	ASKED_OPEN,
	ASKED_METER,
	ASKED_REVOKE,
	ASKED_CALL,
	TOLD_SETTLE, /* is not answered; in the list only until it is sent */
	TOLD_CLOSE,
	TOLD_RELEASE,
};

static const char letters[] = {
	[ASKED_RESERVE] = 'r', [ASKED_OPEN] = 'o',  [ASKED_METER] = 'm', [ASKED_REVOKE] = 'x',
	[ASKED_CALL] = 'k',    [TOLD_SETTLE] = 's', [TOLD_CLOSE] = 'c',  [TOLD_RELEASE] = 'b',
};

/* What was asked and is not answered, or what is not sent yet. */
struct item {
	struct item *next;
	enum item_kind kind;
	uint64_t seq, due_ms;
	void *object;          /* that is answered */
	bool is_told;          /* nobody waits for that: it is never due */
	char id[NAME_MAX + 1]; /* of the hold or the run, to be given back when nobody waits */
	struct buf packet;     /* while it is not sent */
};

/* In the order in which they came. */
struct items {
	struct item *first, **last;
	size_t count;
};

struct lent {
	struct store store; /* first */
	struct loop_source source;
	struct loop_timer timer;
	int fd;               /* owned; -1: nobody is there any more */
	struct outbox outbox; /* what it does not take at once */
	bool is_held;         /* the lender does not serve yet: nothing is sent */
	struct items items;
	struct items late; /* answered by time; what they are granted is given back */
	uint64_t last_seq;
};

/* ---- lists ---- */

static void items_init(struct items *items)
{
	*items = (struct items){ .first = NULL };
	items->last = &items->first;
}

static void items_add(struct items *items, struct item *item)
{
	item->next = NULL;
	*items->last = item;
	items->last = &item->next;
	items->count++;
}

/* The one at `at`. */
static struct item *items_take(struct items *items, struct item **at)
{
	struct item *item = *at;

	*at = item->next;
	if (!item->next)
		items->last = at;
	items->count--;
	return item;
}

static void item_free(struct item *item)
{
	buf_fini(&item->packet);
	free(item);
}

static void items_fini(struct items *items)
{
	while (items->first)
		item_free(items_take(items, &items->first));
}

/* Answers come in the order of the questions. */
static struct item **items_find(struct items *items, uint64_t seq)
{
	struct item **at = &items->first;

	while (*at && (*at)->seq != seq)
		at = &(*at)->next;
	return *at ? at : NULL;
}

/* ---- answers ---- */

/* Each fills in its answer; `words` are what follows the verdict. */
static void answer_reserve(void *object, enum store_verdict verdict, struct bytes words,
			   uint64_t now_ms)
{
	struct store_reservation *reservation = object;
	uint64_t claim = 0;

	reservation->verdict = verdict;
	if (!words_next_number(&words, &claim) || claim >= STORE_CLAIMS_MAX ||
	    !words_next_number(&words, &reservation->retry_ms) ||
	    !words_next_number(&words, &reservation->granted_bytes))
		reservation->granted_bytes = reservation->retry_ms = claim = 0;
	reservation->refused_claim = (size_t)claim;
	reservation->on_done(reservation, now_ms);
}

static void answer_open(void *object, enum store_verdict verdict, struct bytes words,
			uint64_t now_ms)
{
	struct store_run *run = object;

	run->verdict = verdict;
	if (!words_next_number(&words, &run->begun_ms))
		run->begun_ms = 0;
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

static void fail(struct lent *lent, void *object, enum item_kind kind, uint64_t now_ms)
{
	lent->store.failure_count++;
	answers[kind](object, STORE_UNREACHABLE, (struct bytes){ "", 0 }, now_ms);
}

static void fail_all(struct lent *lent, uint64_t now_ms)
{
	while (lent->items.first) {
		struct item *item = items_take(&lent->items, &lent->items.first);
		enum item_kind kind = item->kind;
		void *object = item->object;

		item_free(item);
		if (object)
			fail(lent, object, kind, now_ms);
	}
}

static void set_reachable(struct lent *lent, const char *fault)
{
	lent->store.is_reachable = !fault;
	snprintf(lent->store.fault, sizeof(lent->store.fault), "%s", fault ? fault : "");
}

static void hang_up(struct lent *lent)
{
	loop_remove(lent->store.loop, &lent->source);
	close_fd(&lent->fd);
	outbox_fini(&lent->outbox);
	items_fini(&lent->late);
}

/* The successor is gone; nobody else has the store. One that never served has changed nothing. */
static void lose(struct lent *lent, uint64_t now_ms)
{
	hang_up(lent);
	if (lent->is_held)
		return;
	loop_cancel(lent->store.loop, &lent->timer);
	set_reachable(lent, "the keeper that this one was replaced by is gone");
	fail_all(lent, now_ms);
}

static int watch(struct lent *lent)
{
	return loop_change(lent->store.loop, &lent->source,
			   LOOP_READ | (outbox_len(&lent->outbox) > 0 ? LOOP_WRITE : 0));
}

static void give_back(struct lent *lent, const struct item *item, uint64_t now_ms);

static void on_answer(struct lent *lent, struct bytes words, uint64_t now_ms)
{
	uint64_t seq, verdict;
	struct item **at, *item;

	if (!words_next_number(&words, &seq) || !words_next_number(&words, &verdict) ||
	    verdict > STORE_UNREACHABLE)
		return;
	set_reachable(lent, NULL);
	if ((at = items_find(&lent->late, seq))) {
		item = items_take(&lent->late, at);
		if (verdict == STORE_GRANTED)
			give_back(lent, item, now_ms);
		item_free(item);
	} else if ((at = items_find(&lent->items, seq))) {
		enum item_kind kind = (*at)->kind;
		void *object = (*at)->object;

		item_free(items_take(&lent->items, at));
		answers[kind](object, (enum store_verdict)verdict, words, now_ms);
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
	struct bytes words;
	ssize_t n;

	if ((ready & LOOP_WRITE) && (outbox_flush(&lent->outbox, lent->fd) < 0 || watch(lent) < 0))
		outbox_fini(&lent->outbox);
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

/* ---- time ---- */

static void set_timer(struct lent *lent)
{
	const struct item *item = lent->items.first;

	while (item && (!item->object || item->is_told))
		item = item->next;
	if (item && !lent->timer.place)
		loop_set_timer(lent->store.loop, &lent->timer, item->due_ms);
}

/* The first that somebody has waited for too long; or NULL. */
static struct item **find_due(struct lent *lent, uint64_t now_ms)
{
	struct item **at = &lent->items.first;

	while (*at && (!(*at)->object || (*at)->is_told))
		at = &(*at)->next;
	return *at && (*at)->due_ms <= now_ms ? at : NULL;
}

/* A successor that is slow may still grant it: that is given back when it does. */
static void on_due(struct loop_timer *timer, uint64_t now_ms)
{
	struct lent *lent = OWNER_OF(timer, struct lent, timer);
	struct item **at;

	while ((at = find_due(lent, now_ms))) {
		struct item *item = items_take(&lent->items, at);
		enum item_kind kind = item->kind;
		void *object = item->object;

		if (lent->is_held)
			item_free(item);
		else
			items_add(&lent->late, item);
		set_reachable(lent, "the keeper that this one was replaced by does not answer");
		fail(lent, object, kind, now_ms);
	}
	set_timer(lent);
}

/* ---- questions ---- */

static struct item *begin(struct lent *lent, enum item_kind kind, void *object, const char *id,
			  uint64_t now_ms)
{
	struct item *item = calloc(1, sizeof(*item));

	if (!item)
		die_no_memory();
	item->kind = kind;
	item->object = object;
	item->due_ms = now_ms + STORE_ANSWER_MS;
	snprintf(item->id, sizeof(item->id), "%s", id);
	buf_init(&item->packet, PACKET_MAX);
	if (object) {
		item->seq = ++lent->last_seq;
		words_add_number(&item->packet, item->seq);
	}
	return item;
}

/* Who cannot be told anything is gone, and that is heard where it is read. */
static void send_item(struct lent *lent, struct item *item)
{
	struct bytes text = { item->packet.data, item->packet.len };

	if (outbox_send(&lent->outbox, lent->fd, (enum status_type)letters[item->kind], text) < 0 ||
	    watch(lent) < 0)
		shutdown(lent->fd, SHUT_RDWR);
	buf_fini(&item->packet);
}

/* What cannot be asked is answered. */
static void ask(struct lent *lent, struct item *item, uint64_t now_ms)
{
	enum item_kind kind = item->kind;
	void *object = item->object;

	if ((lent->fd < 0 && !lent->is_held) || lent->items.count + lent->late.count >= ITEMS_MAX) {
		item_free(item);
		fail(lent, object, kind, now_ms);
		return;
	}
	items_add(&lent->items, item);
	set_timer(lent);
	if (!lent->is_held)
		send_item(lent, item);
}

/* What cannot be told is lost with the store. */
static void tell(struct lent *lent, struct item *item)
{
	if (lent->is_held) {
		items_add(&lent->items, item);
		return;
	}
	if (lent->fd >= 0)
		send_item(lent, item);
	item_free(item);
}

static void reserve(struct store *store, struct store_reservation *first, uint64_t now_ms)
{
	struct lent *lent = (struct lent *)(void *)store;

	for (struct store_reservation *next; first; first = next) {
		/* What makes a hold larger is given back with the hold. */
		struct item *item = begin(lent, ASKED_RESERVE, first,
					  first->is_more ? "" : first->id, now_ms);
		struct buf *packet = &item->packet;

		next = first->next;
		item->is_told = first->is_told;
		words_add(packet, first->id);
		words_add(packet, first->run_id);
		words_add(packet, first->account);
		words_add_number(packet, first->attempt);
		words_add_number(packet, first->is_of_money);
		words_add_number(packet, first->bytes);
		words_add_number(packet, first->spend);
		words_add_number(packet, first->more);
		words_add_number(packet, first->is_more);
		for (size_t i = 0; i < first->claim_count; i++) {
			const struct limits *limits = &first->claims[i].limits;

			words_add(packet, first->claims[i].meter);
			words_add_number(packet, limits->rate);
			words_add_number(packet, limits->burst);
			words_add_number(packet, limits->concurrent);
			words_add_number(packet, limits->bytes);
			words_add_number(packet, limits->spend);
		}
		ask(lent, item, now_ms);
	}
}

static void open_run(struct store *store, struct store_run *run, uint64_t now_ms)
{
	struct lent *lent = (struct lent *)(void *)store;
	struct item *item = begin(lent, ASKED_OPEN, run, run->has_no_link ? "" : run->run_id,
				  now_ms);

	item->is_told = run->is_told;
	words_add(&item->packet, run->run_id);
	words_add(&item->packet, run->account);
	words_add_number(&item->packet, run->attempt);
	words_add_number(&item->packet, run->has_no_link);
	words_add_number(&item->packet, run->age_ms);
	ask(lent, item, now_ms);
}

static void read_meter(struct store *store, struct store_meter *meter, uint64_t now_ms)
{
	struct lent *lent = (struct lent *)(void *)store;
	struct item *item = begin(lent, ASKED_METER, meter, "", now_ms);

	words_add(&item->packet, meter->meter);
	ask(lent, item, now_ms);
}

static void revoke_run(struct store *store, struct store_revocation *revocation, uint64_t now_ms)
{
	struct lent *lent = (struct lent *)(void *)store;
	struct item *item = begin(lent, ASKED_REVOKE, revocation, "", now_ms);

	words_add(&item->packet, revocation->run_id);
	ask(lent, item, now_ms);
}

static void settle(struct store *store, const struct store_settlement *settlement, uint64_t now_ms)
{
	struct lent *lent = (struct lent *)(void *)store;
	struct item *item = begin(lent, TOLD_SETTLE, NULL, settlement->id, now_ms);

	words_add_settlement(&item->packet, settlement);
	tell(lent, item);
}

static void close_run(struct store *store, const char *run_id, uint64_t now_ms)
{
	struct lent *lent = (struct lent *)(void *)store;
	struct item *item = begin(lent, TOLD_CLOSE, NULL, run_id, now_ms);

	words_add(&item->packet, run_id);
	tell(lent, item);
}

static void give_back(struct lent *lent, const struct item *item, uint64_t now_ms)
{
	const struct store_settlement nothing = { .id = item->id,
						  .is_cost_known = true,
						  .call_id = "" };

	if (!item->id[0])
		return;
	if (item->kind == ASKED_RESERVE)
		settle(&lent->store, &nothing, now_ms);
	else if (item->kind == ASKED_OPEN)
		close_run(&lent->store, item->id, now_ms);
}

static void reconcile(struct store *store, struct store_call *call, uint64_t now_ms)
{
	struct lent *lent = (struct lent *)(void *)store;
	struct item *item = begin(lent, ASKED_CALL, call, "", now_ms);

	words_add(&item->packet, call->call_id);
	words_add(&item->packet, call->run_id);
	words_add(&item->packet, call->account);
	words_add_number(&item->packet, call->attempt);
	words_add_number(&item->packet, call->cost);
	ask(lent, item, now_ms);
}

static void release(struct store *store, const struct store_release *read, uint64_t now_ms)
{
	struct lent *lent = (struct lent *)(void *)store;
	struct item *item = begin(lent, TOLD_RELEASE, NULL, "", now_ms);

	words_add_release(&item->packet, read);
	tell(lent, item);
}

static void close_store(struct store *store)
{
	struct lent *lent = (struct lent *)(void *)store;

	lent->is_held = false;
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
	.release = release,
	.close = close_store,
};

struct store *store_lent_new(struct loop *loop, int fd)
{
	struct lent *lent = calloc(1, sizeof(*lent));

	if (!lent)
		die_no_memory();
	lent->store = (struct store){ .ops = &ops, .loop = loop, .is_reachable = true };
	lent->fd = fd;
	lent->is_held = true;
	lent->timer.on_due = on_due;
	lent->source = (struct loop_source){ .fd = -1, .on_ready = on_ready };
	items_init(&lent->items);
	items_init(&lent->late);
	outbox_init(&lent->outbox);
	if (runid_new(lent->store.keeper_id) < 0 ||
	    loop_add(loop, &lent->source, fd, LOOP_READ) < 0)
		lose(lent, clock_now_ms());
	return &lent->store;
}

/* ---- what becomes of it ---- */

void store_lent_go(struct store *store, uint64_t now_ms)
{
	struct lent *lent = (struct lent *)(void *)store;
	struct items held = lent->items;

	lent->is_held = false;
	if (lent->fd < 0) { /* it has gone at once */
		lose(lent, now_ms);
		return;
	}
	items_init(&lent->items);
	for (struct item *item = held.first, *next; item; item = next) {
		next = item->next;
		item->due_ms = now_ms + STORE_ANSWER_MS;
		if (item->object)
			ask(lent, item, now_ms);
		else
			tell(lent, item);
	}
}

/* What was held, done by a store that is there. */
static void redo(struct store *store, const struct item *item, uint64_t now_ms)
{
	struct bytes words = { item->packet.data, item->packet.len };
	struct store_settlement settlement;
	struct store_release read;

	switch (item->kind) {
	case ASKED_RESERVE:
		((struct store_reservation *)item->object)->next = NULL;
		store->ops->reserve(store, item->object, now_ms);
		break;
	case ASKED_OPEN:
		store->ops->open_run(store, item->object, now_ms);
		break;
	case ASKED_METER:
		store->ops->read_meter(store, item->object, now_ms);
		break;
	case ASKED_REVOKE:
		store->ops->revoke(store, item->object, now_ms);
		break;
	case ASKED_CALL:
		store->ops->reconcile(store, item->object, now_ms);
		break;
	case TOLD_SETTLE:
		if (words_next_settlement(&words, &settlement))
			store->ops->settle(store, &settlement, now_ms);
		break;
	case TOLD_CLOSE:
		store->ops->close_run(store, item->id, now_ms);
		break;
	case TOLD_RELEASE:
		if (words_next_release(&words, &read))
			store->ops->release(store, &read, now_ms);
		break;
	}
}

void store_lent_return(struct store *store, struct store *to, uint64_t now_ms)
{
	struct lent *lent = (struct lent *)(void *)store;

	while (lent->items.first) {
		struct item *item = items_take(&lent->items, &lent->items.first);

		redo(to, item, now_ms);
		item_free(item);
	}
	close_store(store);
}
