/* SPDX-License-Identifier: MIT */
/* What lives, told to a store that does not know it yet. */
#include "store/anew.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "store/lent.h"

/* ---- runs ---- */

struct reopened {
	struct store_run request; /* first */
	char run_id[RUNID_MAX + 1];
};

static void on_reopened(struct store_run *request, uint64_t now_ms)
{
	(void)now_ms;
	free(request);
}

void store_reopen_run(struct store *store, const char *run_id, uint64_t begun_ms, bool has_no_link,
		      uint64_t now_ms)
{
	uint64_t wall_ms = clock_ms(CLOCK_REALTIME);
	struct reopened *reopened = calloc(1, sizeof(*reopened));

	if (!reopened)
		die_no_memory();
	snprintf(reopened->run_id, sizeof(reopened->run_id), "%s", run_id);
	reopened->request = (struct store_run){
		.run_id = reopened->run_id,
		.account = "",
		.has_no_link = has_no_link,
		.age_ms = wall_ms > begun_ms ? wall_ms - begun_ms : 0,
		.is_told = true,
		.on_done = on_reopened,
	};
	store->ops->open_run(store, &reopened->request, now_ms);
}

/* ---- reservations ---- */

static char *copy_text(const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		die_no_memory();
	return copy;
}

struct store_reservation *reservation_copy(const struct store_reservation *reservation)
{
	struct store_reservation *copy = malloc(sizeof(*copy));

	if (!copy)
		die_no_memory();
	*copy = *reservation;
	copy->next = NULL;
	copy->on_done = NULL;
	copy->run_id = copy_text(reservation->run_id);
	copy->account = copy_text(reservation->account);
	for (size_t i = 0; i < copy->claim_count; i++)
		copy->claims[i].meter = copy_text(reservation->claims[i].meter);
	return copy;
}

void reservation_free(struct store_reservation *reservation)
{
	for (size_t i = 0; i < reservation->claim_count; i++)
		free((char *)reservation->claims[i].meter);
	free((char *)reservation->run_id);
	free((char *)reservation->account);
	free(reservation);
}

static void on_retaken(struct store_reservation *reservation, uint64_t now_ms)
{
	(void)now_ms;
	reservation_free(reservation);
}

/* What it has of bytes and money is written down; only its place is not. */
void store_retake(struct store *store, const struct store_reservation *reservation, uint64_t now_ms)
{
	struct store_reservation *copy = reservation_copy(reservation);

	copy->is_told = true;
	copy->is_of_money = false;
	copy->bytes = copy->spend = copy->more = 0;
	for (size_t i = 0; i < copy->claim_count; i++)
		copy->claims[i].limits = (struct limits){
			.concurrent = reservation->claims[i].limits.concurrent,
		};
	copy->on_done = on_retaken;
	store->ops->reserve(store, copy, now_ms);
}
