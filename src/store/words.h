/* SPDX-License-Identifier: MIT */
/* What keepers tell each other of settlements, as words of a packet. */
#ifndef STORE_WORDS_H
#define STORE_WORDS_H

#include "base/words.h"
#include "store/store.h"

/* ID BYTES KNOWN COST CALL */
static inline void words_add_settlement(struct buf *out, const struct store_settlement *settlement)
{
	words_add(out, settlement->id);
	words_add_number(out, settlement->bytes);
	words_add_number(out, settlement->is_cost_known);
	words_add_number(out, settlement->cost);
	words_add(out, settlement->call_id);
}

/* Its texts are in `words`. */
static inline bool words_next_settlement(struct bytes *words,
					 struct store_settlement *ret_settlement)
{
	uint64_t is_known;

	*ret_settlement = (struct store_settlement){ .id = words_next(words) };
	if (!ret_settlement->id || !words_next_number(words, &ret_settlement->bytes) ||
	    !words_next_number(words, &is_known) ||
	    !words_next_number(words, &ret_settlement->cost))
		return false;
	ret_settlement->is_cost_known = is_known;
	ret_settlement->call_id = words_next(words);
	return ret_settlement->call_id != NULL;
}

/* LOGS SINCE BEFORE */
static inline void words_add_release(struct buf *out, const struct store_release *release)
{
	words_add(out, release->logs);
	words_add_number(out, release->since_s);
	words_add_number(out, release->before_s);
}

static inline bool words_next_release(struct bytes *words, struct store_release *ret_release)
{
	const char *logs = words_next(words);

	if (!logs || strlen(logs) >= sizeof(ret_release->logs))
		return false;
	memcpy(ret_release->logs, logs, strlen(logs) + 1);
	return words_next_number(words, &ret_release->since_s) &&
	       words_next_number(words, &ret_release->before_s);
}

#endif
