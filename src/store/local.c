/* SPDX-License-Identifier: MIT */
/* The store of one process: what is decided. How it is remembered is in local.h. */
#include "store/local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static struct local *local_of(struct store *store)
{
	return OWNER_OF(store, struct local, store);
}

static enum store_verdict counted(struct local *local, enum store_verdict verdict)
{
	local->store.failure_count += verdict == STORE_UNREACHABLE;
	return verdict;
}

static bool is_revoked(const struct local *local, const char *run_id)
{
	return table_find(&local->revoked, run_id) != NULL;
}

/* ---- news ---- */

/*
 * Whether the money is used up, after either has changed. One that nobody has claimed with before
 * has nobody to be told: what it was used up by was settled then.
 */
static void watch_money(struct local *local, struct tally *tally)
{
	bool is_used_up = tally->limits.spend > 0 && tally->meter.spent >= tally->limits.spend;
	bool is_news = is_used_up && !tally->is_used_up && tally->is_claimed;

	tally->is_used_up = is_used_up;
	if (!is_news || tally->is_in_news)
		return;
	tally->is_in_news = true;
	tally->user_count++;
	tally->next_news = local->news;
	local->news = tally;
}

/* At the end of whatever has led to them: who is told may ask for anything. */
static void tell_news(struct local *local, uint64_t now_ms)
{
	struct tally *tally;

	while ((tally = local->news)) {
		local->news = tally->next_news;
		tally->is_in_news = false;
		if (local->store.on_news)
			local->store.on_news(&local->store, STORE_NEWS_NO_MONEY, tally->name,
					     now_ms);
		tally->user_count--;
	}
}

/* ---- reserving ---- */

static bool needs_journal(const struct local *local, const struct store_reservation *asked)
{
	bool needs = asked->spend > 0;

	for (size_t i = 0; i < asked->claim_count; i++)
		needs |= store_spend_limit(asked, i) > 0 || asked->claims[i].limits.bytes > 0;
	return needs && local->journal;
}

/* The limits that count from now on; of money only by what is of money. */
static void set_limits(struct local *local, struct tally *tally, struct limits limits,
		       bool is_of_money)
{
	if (!is_of_money)
		limits.spend = tally->limits.spend;
	tally->limits = limits;
	if (!is_of_money)
		return;
	watch_money(local, tally);
	tally->is_claimed = true;
}

static enum store_verdict try_claim(struct local *local, struct store_reservation *asked, size_t at,
				    struct tally *tally, uint64_t now_ms)
{
	struct limits limits = asked->claims[at].limits;
	enum store_verdict verdict;

	if (needs_journal(local, asked) && !local_load_tally(local, tally))
		return STORE_UNREACHABLE;
	set_limits(local, tally, limits, asked->is_of_money);
	limits.spend = store_spend_limit(asked, at);
	verdict = meter_test(&tally->meter, &limits, asked->granted_bytes, asked->spend, now_ms,
			     &asked->retry_ms);
	if (verdict == STORE_GRANTED)
		meter_hold(&tally->meter, &limits, asked->granted_bytes, asked->spend);
	return verdict;
}

/* How many bytes it gets: those that it needs, and what there is beside them. */
static enum store_verdict find_room(struct local *local, struct store_reservation *asked,
				    uint64_t now_ms)
{
	uint64_t more = asked->more;

	asked->granted_bytes = asked->bytes;
	for (size_t i = 0; asked->more > 0 && i < asked->claim_count; i++) {
		struct tally *tally = local_get_tally(local, asked->claims[i].meter, now_ms);
		uint64_t room;

		if (needs_journal(local, asked) && !local_load_tally(local, tally))
			return STORE_UNREACHABLE;
		room = meter_room(&tally->meter, &asked->claims[i].limits, asked->bytes);
		asked->refused_claim = i;
		if (room == 0)
			return STORE_NO_BYTES;
		more = room < more ? room : more;
	}
	asked->refused_claim = 0;
	asked->granted_bytes += more;
	return STORE_GRANTED;
}

/* All claims or none. One meter may be claimed twice, so each is held before the next is tested. */
static enum store_verdict try_claims(struct local *local, struct store_reservation *asked,
				     struct tally **ret_tallies, uint64_t now_ms)
{
	enum store_verdict verdict = find_room(local, asked, now_ms);
	size_t count;

	if (verdict != STORE_GRANTED)
		return verdict;
	for (count = 0; count < asked->claim_count; count++) {
		ret_tallies[count] = local_get_tally(local, asked->claims[count].meter, now_ms);
		verdict = try_claim(local, asked, count, ret_tallies[count], now_ms);
		if (verdict != STORE_GRANTED)
			break;
	}
	if (verdict == STORE_GRANTED)
		return verdict;
	asked->refused_claim = count;
	while (count-- > 0)
		meter_undo(&ret_tallies[count]->meter, &asked->claims[count].limits,
			   asked->granted_bytes, asked->spend);
	return verdict;
}

/* Whoever left it is still there, and has borrowed the store from us. */
static void take_again(struct hold *hold)
{
	if (!hold->is_left)
		return;
	hold->is_left = hold->is_kept = false;
	for (size_t i = 0; i < hold->tally_count; i++)
		meter_take_place(&hold->tallies[i]->meter);
}

/* What a hold has becomes more. */
static enum store_verdict extend(struct local *local, struct store_reservation *asked,
				 uint64_t now_ms)
{
	struct hold *hold = local_find_hold(local, asked->id);
	enum store_verdict verdict;

	if (hold)
		take_again(hold);
	if (!hold || hold->is_kept)
		return STORE_NO_BYTES;
	verdict = find_room(local, asked, now_ms);
	if (verdict != STORE_GRANTED)
		return verdict;
	for (size_t i = 0; i < hold->tally_count; i++)
		meter_extend(&hold->tallies[i]->meter, asked->granted_bytes);
	hold->bytes += asked->granted_bytes;
	local_touch_hold(local, hold);
	return STORE_GRANTED;
}

static enum store_verdict decide(struct local *local, struct store_reservation *asked,
				 uint64_t now_ms)
{
	struct tally *tallies[STORE_CLAIMS_MAX];
	enum store_verdict verdict;
	struct hold *hold;

	asked->refused_claim = 0;
	asked->retry_ms = 0;
	if (!local_load(local))
		return STORE_UNREACHABLE;
	if (is_revoked(local, asked->run_id))
		return STORE_IS_REVOKED;
	if (asked->is_more)
		return extend(local, asked, now_ms);
	hold = local_find_hold(local, asked->id);
	if (hold) {
		take_again(hold);
		asked->granted_bytes = hold->bytes;
		return STORE_GRANTED;
	}
	verdict = try_claims(local, asked, tallies, now_ms);
	if (verdict != STORE_GRANTED)
		return verdict;
	hold = local_add_hold(local, asked->id, tallies, asked->claim_count);
	hold->bytes = asked->granted_bytes;
	hold->spend = asked->spend;
	hold->is_journalled = needs_journal(local, asked);
	local_touch_hold(local, hold);
	return STORE_GRANTED;
}

/* What could not be written was not granted (INV-FAIL-CLOSED). */
static void take_back(struct local *local, struct store_reservation *asked)
{
	struct hold *hold = NULL;

	if (asked->verdict == STORE_GRANTED)
		hold = local_find_hold(local, asked->id);
	for (size_t i = 0; hold && i < hold->tally_count; i++) {
		if (asked->is_more)
			meter_shrink(&hold->tallies[i]->meter, asked->granted_bytes);
		else
			meter_undo(&hold->tallies[i]->meter, &asked->claims[i].limits,
				   asked->granted_bytes, asked->spend);
	}
	if (hold && asked->is_more)
		hold->bytes -= asked->granted_bytes;
	else if (hold)
		local_take_back_hold(local, hold);
	asked->verdict = STORE_UNREACHABLE;
	asked->retry_ms = 0;
}

static void reserve(struct store *store, struct store_reservation *first, uint64_t now_ms)
{
	struct local *local = local_of(store);
	struct store_reservation *asked, *next;
	bool is_to_write = false;

	for (asked = first; asked; asked = asked->next) {
		asked->verdict = decide(local, asked, now_ms);
		is_to_write |= asked->verdict == STORE_GRANTED && needs_journal(local, asked);
	}
	if (is_to_write && !local_write(local))
		for (asked = first; asked; asked = asked->next)
			if (needs_journal(local, asked))
				take_back(local, asked);
	for (asked = first; asked; asked = next) {
		next = asked->next;
		counted(local, asked->verdict);
		asked->on_done(asked, now_ms);
	}
	tell_news(local, now_ms);
}

/* ---- settling ---- */

/* A call that the upstream's log has told of already has been counted as it was. */
static bool is_reconciled(struct local *local, const char *call_id)
{
	struct journal_call call;

	/* Where that cannot be read the call counts, twice at worst: errors are on the safe side.
	 */
	return call_id[0] && local_find_call(local, call_id, &call) > 0 && call.is_truth;
}

/* Two replies with one call's id are two costs, until the log says otherwise. */
static void remember_cost(struct local *local, const char *call_id, uint64_t cost)
{
	struct journal_call call;

	if (local_find_call(local, call_id, &call) > 0)
		cost += call.cost;
	local_remember_call(local, call_id, cost, false);
}

static void pay(struct local *local, struct hold *hold, uint64_t cost)
{
	for (size_t i = 0; i < hold->tally_count; i++) {
		meter_pay(&hold->tallies[i]->meter, hold->spend, cost);
		watch_money(local, hold->tallies[i]);
		if (cost > 0)
			local_touch_tally(local, hold->tallies[i]);
	}
	if (cost > 0)
		local_hurry(local);
	local_end_hold(local, hold);
}

static void settle(struct store *store, const struct store_settlement *settlement, uint64_t now_ms)
{
	struct local *local = local_of(store);
	struct hold *hold = local->is_loaded ? local_find_hold(local, settlement->id) : NULL;
	bool is_counted;

	if (!hold)
		return;
	take_again(hold);
	if (hold->is_kept)
		return;
	for (size_t i = 0; i < hold->tally_count; i++) {
		meter_end(&hold->tallies[i]->meter, hold->bytes, settlement->bytes);
		if (settlement->bytes > 0)
			local_touch_tally(local, hold->tallies[i]);
	}
	hold->bytes = 0;
	is_counted = is_reconciled(local, settlement->call_id);
	if (settlement->is_cost_known && !is_counted) {
		if (settlement->call_id[0])
			remember_cost(local, settlement->call_id, settlement->cost);
		pay(local, hold, settlement->cost);
	} else if (hold->spend > 0 && !is_counted) {
		local_keep_hold(local, hold, settlement->call_id);
		local_touch_hold(local, hold);
	} else {
		pay(local, hold, 0);
	}
	tell_news(local, now_ms);
}

static void flush(struct store *store, uint64_t now_ms)
{
	struct local *local = local_of(store);

	(void)now_ms;
	/* What cannot be written waits, and the timer tries. */
	if (local->unwritten.is_urgent && store->is_reachable)
		(void)!local_write(local);
}

/* ---- reconciling ---- */

static void release(struct local *local, struct hold *hold)
{
	for (size_t i = 0; i < hold->tally_count; i++) {
		meter_release(&hold->tallies[i]->meter, hold->bytes, hold->spend);
		if (hold->bytes > 0)
			local_touch_tally(local, hold->tallies[i]);
	}
	local_end_hold(local, hold);
}

/* The meters of a call, with a user each, which the caller gives up. */
struct opened {
	struct tally *tallies[STORE_CLAIMS_MAX];
	size_t count;
};

static bool open_tally(struct local *local, struct tally *tally, struct opened *opened)
{
	if (!local_load_tally(local, tally))
		return false;
	tally->user_count++;
	opened->tallies[opened->count++] = tally;
	return true;
}

/* Those that the log names. False: unreachable. */
static bool open_named(struct local *local, const struct store_call *call, uint64_t now_ms,
		       struct opened *opened)
{
	const struct {
		const char *kind, *name;
	} owners[] = { { "run:", call->run_id }, { "account:", call->account } };

	for (size_t i = 0; i < ARRAY_LEN(owners); i++) {
		size_t size = strlen(owners[i].kind) + strlen(owners[i].name) + 1;
		_cleanup_free_ char *meter = local_alloc(size);

		if (!owners[i].name[0])
			continue;
		snprintf(meter, size, "%s%s", owners[i].kind, owners[i].name);
		if (!open_tally(local, local_get_tally(local, meter, now_ms), opened))
			return false;
	}
	return true;
}

/* Those that the hold is of which was kept for it, or else those that the log names. */
static bool open_tallies(struct local *local, const struct store_call *call, uint64_t now_ms,
			 struct opened *opened)
{
	const struct hold *hold = local_find_kept(local, call->call_id);
	bool is_open = true;

	if (!hold)
		return open_named(local, call, now_ms, opened);
	for (size_t i = 0; is_open && i < hold->tally_count; i++)
		is_open = open_tally(local, hold->tallies[i], opened);
	return is_open;
}

/* Everything that can fail has not; what is written later is in memory until then. */
static void apply_call(struct local *local, struct store_call *call, const struct opened *opened)
{
	struct hold *hold;

	while ((hold = local_find_kept(local, call->call_id))) {
		call->was_known = true;
		release(local, hold);
	}
	for (size_t i = 0; i < opened->count; i++) {
		meter_correct(&opened->tallies[i]->meter, call->counted, call->cost);
		watch_money(local, opened->tallies[i]);
		local_touch_tally(local, opened->tallies[i]);
	}
	local_remember_call(local, call->call_id, call->cost, true);
}

/* False: unreachable, and nothing has changed. */
static bool count_call(struct local *local, struct store_call *call, uint64_t now_ms)
{
	struct opened opened = { .count = 0 };
	struct journal_call known;
	bool is_open;
	int r = local_find_call(local, call->call_id, &known);

	if (r < 0)
		return false;
	call->was_known = r > 0;
	call->counted = known.cost;
	if (r > 0 && known.is_truth && known.cost == call->cost)
		return true;
	is_open = open_tallies(local, call, now_ms, &opened);
	if (is_open)
		apply_call(local, call, &opened);
	while (opened.count-- > 0)
		opened.tallies[opened.count]->user_count--;
	return is_open;
}

static enum store_verdict reconcile_one(struct local *local, struct store_call *call,
					uint64_t now_ms)
{
	call->was_known = false;
	call->counted = 0;
	if (!call->call_id[0]) /* could not be told from another, and would count each time */
		return STORE_GRANTED;
	/* What is known not to work is not tried with something that cannot be taken back. */
	if (!local_load(local) || (!local->store.is_reachable && !local_write(local)))
		return STORE_UNREACHABLE;
	if (!count_call(local, call, now_ms))
		return STORE_UNREACHABLE;
	if (local_has_unwritten(local) && !local_write(local))
		return STORE_UNREACHABLE;
	return STORE_GRANTED;
}

static void reconcile(struct store *store, struct store_call *call, uint64_t now_ms)
{
	struct local *local = local_of(store);

	call->verdict = counted(local, reconcile_one(local, call, now_ms));
	call->on_done(call, now_ms);
	tell_news(local, now_ms);
}

static bool is_no_call(const struct hold *hold, const struct store_release *read)
{
	size_t len = strlen(hold->id);

	return hold->is_kept && hold->made_at >= read->since_s && hold->kept_at < read->before_s &&
	       len > STORE_LOG_LEN && strstr(read->logs, hold->id + len - STORE_LOG_LEN);
}

static void release_holds(struct store *store, const struct store_release *read, uint64_t now_ms)
{
	struct local *local = local_of(store);
	struct table_walk walk = { 0 };
	struct table_entry *entry;

	(void)now_ms;
	if (!local_load(local))
		return;
	while ((entry = table_walk(&local->holds, &walk))) {
		struct hold *hold = OWNER_OF(entry, struct hold, entry);

		if (is_no_call(hold, read))
			release(local, hold);
	}
}

void local_on_burial(struct loop_timer *timer, uint64_t now_ms)
{
	struct local *local = OWNER_OF(timer, struct local, burial);
	struct table_walk walk = { 0 };
	struct table_entry *entry;

	(void)now_ms;
	while ((entry = table_walk(&local->holds, &walk))) {
		struct hold *hold = OWNER_OF(entry, struct hold, entry);

		if (hold->is_left && hold->spend == 0)
			release(local, hold);
	}
}

static void read_meter(struct store *store, struct store_meter *read, uint64_t now_ms)
{
	struct local *local = local_of(store);
	struct tally *tally = NULL;

	if (local_load(local))
		tally = local_get_tally(local, read->meter, now_ms);
	if (tally && local_load_tally(local, tally)) {
		read->verdict = STORE_GRANTED;
		read->bytes = tally->meter.bytes + tally->meter.bytes_held;
		read->spent = tally->meter.spent;
		read->reserved = tally->meter.reserved;
		read->concurrent = tally->meter.concurrent;
	} else {
		read->verdict = counted(local, STORE_UNREACHABLE);
	}
	read->on_done(read, now_ms);
}

/* ---- runs ---- */

static struct open_run *find_run(struct local *local, const char *run_id)
{
	struct table_entry *entry = table_find(&local->runs, run_id);

	return entry ? OWNER_OF(entry, struct open_run, entry) : NULL;
}

static struct open_run *add_run(struct local *local, const char *run_id)
{
	struct open_run *run = local_alloc(sizeof(*run));

	snprintf(run->id, sizeof(run->id), "%s", run_id);
	table_add(&local->runs, &run->entry, run->id);
	return run;
}

uint64_t local_begun_ms(uint64_t known_ms, uint64_t age_ms)
{
	uint64_t wall_ms = clock_ms(CLOCK_REALTIME);

	if (known_ms > 0 && (wall_ms < known_ms || wall_ms - known_ms >= age_ms))
		return known_ms;
	return wall_ms > age_ms ? wall_ms - age_ms : 1; /* 0 would be no time at all */
}

static enum store_verdict begin_run(struct local *local, struct store_run *asked)
{
	struct open_run *run;
	bool has_link;

	if (!local_load(local))
		return STORE_UNREACHABLE;
	if (is_revoked(local, asked->run_id))
		return STORE_IS_REVOKED;
	run = find_run(local, asked->run_id);
	has_link = run && run->has_link;
	if (has_link && !asked->has_no_link)
		return STORE_HAS_LINK;
	has_link |= !asked->has_no_link;
	asked->begun_ms = run ? run->begun_ms : 0;
	if ((!run || local_begun_ms(run->begun_ms, asked->age_ms) != run->begun_ms) &&
	    !local_write_run(local, asked, has_link, &asked->begun_ms))
		return STORE_UNREACHABLE;
	if (!run && (has_link || !local->journal))
		run = add_run(local, asked->run_id);
	if (run) {
		run->begun_ms = asked->begun_ms;
		run->has_link = has_link;
	}
	return STORE_GRANTED;
}

static void open_run(struct store *store, struct store_run *run, uint64_t now_ms)
{
	struct local *local = local_of(store);

	run->verdict = counted(local, begin_run(local, run));
	run->on_done(run, now_ms);
}

static void close_run(struct store *store, const char *run_id, uint64_t now_ms)
{
	struct local *local = local_of(store);
	struct open_run *run = find_run(local, run_id);

	(void)now_ms;
	if (!run)
		return;
	run->has_link = false;
	if (!local->journal)
		return; /* nothing else remembers when it began */
	/* One that is not written has ended for whoever opens the file next. */
	if (store->is_reachable)
		(void)!local_write_end(local, run_id);
	table_remove(&local->runs, &run->entry);
	free(run);
}

static enum store_verdict revoke_run(struct local *local, const char *run_id, bool *ret_is_news)
{
	const struct open_run *run;

	if (!local_load(local))
		return STORE_UNREACHABLE;
	if (is_revoked(local, run_id))
		return STORE_GRANTED;
	if (!local_write_revocation(local, run_id))
		return STORE_UNREACHABLE;
	local_add_revoked(local, run_id);
	run = find_run(local, run_id);
	*ret_is_news = run && run->has_link;
	return STORE_GRANTED;
}

static void revoke_one(struct store *store, struct store_revocation *revocation, uint64_t now_ms)
{
	struct local *local = local_of(store);
	char run_id[RUNID_MAX + 1];
	bool is_news = false;

	revocation->verdict = counted(local, revoke_run(local, revocation->run_id, &is_news));
	snprintf(run_id, sizeof(run_id), "%s", revocation->run_id); /* it may be freed by on_done */
	revocation->on_done(revocation, now_ms);
	if (is_news && store->on_news)
		store->on_news(store, STORE_NEWS_REVOKED, run_id, now_ms);
}

/* ---- the store ---- */

static void close_store(struct store *store)
{
	struct local *local = local_of(store);

	/* What cannot be written is lost, and the holds that it would have ended are left. */
	if (local->is_loaded && local_has_unwritten(local))
		(void)!local_write(local);
	loop_cancel(store->loop, &local->timer);
	loop_cancel(store->loop, &local->burial);
	if (local->is_loaded)
		local_free_state(local);
	if (local->journal)
		local->journal->ops->close(local->journal);
	free(local);
}

static const struct store_ops local_ops = {
	.name = "local",
	.is_of_one_process = true,
	.reserve = reserve,
	.settle = settle,
	.open_run = open_run,
	.close_run = close_run,
	.revoke = revoke_one,
	.read_meter = read_meter,
	.reconcile = reconcile,
	.release = release_holds,
	.flush = flush,
	.close = close_store,
};

struct store *store_local_new(struct loop *loop, struct journal *journal)
{
	struct local *local = local_alloc(sizeof(*local));

	local->store = (struct store){ .ops = &local_ops, .loop = loop, .is_reachable = true };
	local->journal = journal;
	local->timer.on_due = local_on_timer;
	local->burial.on_due = local_on_burial;
	local->last_call = &local->first_call;
	/* A name in logs; where none can be made it stays empty. */
	if (runid_new(local->store.keeper_id) < 0)
		local->store.keeper_id[0] = '\0';
	/* What cannot be read now is read when it is needed; until then nothing is granted. */
	(void)!local_load(local);
	return &local->store;
}
