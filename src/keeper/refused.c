/* SPDX-License-Identifier: MIT */
/* Records of links that are not opened. */
#include "keeper/refused.h"

#include "base/clock.h"
#include "base/list.h"
#include "keeper/keeper.h"

#define SECOND_MS 1000

/* ---- records ---- */

/* Of those that were too many, in one record for each reason. */
static void end_second(struct keeper *keeper)
{
	struct refused *refused = &keeper->refused;

	for (size_t i = 0; i < ARRAY_LEN(refused->counts); i++) {
		struct audit_turned_away turned_away = { .count = (int64_t)refused->unrecorded[i] };

		refused->counts[i] = refused->unrecorded[i] = 0;
		if (turned_away.count == 0)
			continue;
		turned_away.reason = bytes_of(refusal_code((enum refusal)i));
		audit_add_turned_away(&keeper->audit, &turned_away);
		keeper_after_record(keeper);
	}
}

static void on_second_over(struct loop_timer *timer, uint64_t now_ms)
{
	(void)now_ms;
	end_second(OWNER_OF(timer, struct keeper, refused.second));
}

static bool is_one_too_many(struct keeper *keeper, const struct refused_link *link, uint64_t now_ms)
{
	struct refused *refused = &keeper->refused;
	uint64_t most = link->run_id ? REFUSED_RUNS_MAX : REFUSED_STRANGERS_MAX;

	if (!refused->second.place)
		loop_set_timer(&keeper->loop, &refused->second, now_ms + SECOND_MS);
	if (++refused->counts[link->refusal] <= most)
		return false;
	refused->unrecorded[link->refusal]++;
	return true;
}

void refused_record(struct keeper *keeper, const struct refused_link *link)
{
	const char *code = refusal_code(link->refusal);
	const char *from = link->from && *link->from ? link->from : NULL;
	uint64_t now_ms = clock_now_ms();
	struct audit_decision decision = {
		.attempt = link->run_id ? link->attempt : AUDIT_UNSET,
		.exchange = AUDIT_UNSET,
		.method = BYTES("LINK"),
		.reason = bytes_of(code),
	};

	if (link->run_id)
		decision.run_id = bytes_of(link->run_id);
	if (from)
		decision.host = bytes_of(from);
	keeper->metrics.runs_refused++;
	keeper_notice(keeper, NOTICE_RUN_REFUSED, now_ms,
		      &(struct notice){ .run_id = link->run_id, .code = code, .text = from });
	if (is_one_too_many(keeper, link, now_ms))
		return;
	keeper->has_decision = true;
	audit_add_decision(&keeper->audit, &decision);
	keeper_after_record(keeper);
}

/* ---- telling ---- */

void refused_tell_later(struct keeper *keeper, struct refused_caller *caller)
{
	LIST_ADD(&keeper->refused.callers, caller);
}

void refused_forget(struct refused_caller *caller)
{
	if (!caller->at)
		return;
	LIST_REMOVE(caller);
	caller->at = NULL;
}

void refused_tell_all(struct keeper *keeper, uint64_t now_ms)
{
	while (keeper->refused.callers) {
		struct refused_caller *caller = keeper->refused.callers;

		refused_forget(caller);
		caller->tell(caller, now_ms);
	}
}

/* ---- beginning and end ---- */

void refused_init(struct refused *refused)
{
	refused->second.on_due = on_second_over;
}

void refused_finish(struct keeper *keeper)
{
	loop_cancel(&keeper->loop, &keeper->refused.second);
	end_second(keeper);
}
