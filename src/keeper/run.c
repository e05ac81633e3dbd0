/* SPDX-License-Identifier: MIT */
/* Runs. */
#include "keeper/run.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/die.h"

static void copy_metadata(struct run *run, const struct run_spec *spec)
{
	run->metadata = arena_alloc(&run->arena,
				    (spec->metadata_count + 1) * sizeof(*run->metadata));
	for (size_t i = 0; i < spec->metadata_count; i++) {
		run->metadata[i].name = arena_strdup(&run->arena, spec->metadata[i].name);
		run->metadata[i].value = arena_strdup(&run->arena, spec->metadata[i].value);
	}
	run->metadata_count = spec->metadata_count;
}

struct run *run_new(struct charter *charter, const struct run_spec *spec, struct err *err)
{
	const char *account = spec->account ? spec->account : charter->config->billing_account;
	struct run *run = calloc(1, sizeof(*run));

	if (!run)
		die_no_memory();
	snprintf(run->run_id, sizeof(run->run_id), "%s", spec->run_id);
	run->attempt = spec->attempt;
	run->account = account ? arena_strdup(&run->arena, account) : NULL;
	copy_metadata(run, spec);
	budget_init(&run->budget, charter->config->egress_bytes,
		    charter->config->egress_host_bytes);
	if (terms_new(charter, NULL, &run->terms, err) < 0) {
		run_free(run);
		return NULL;
	}
	return run;
}

void run_free(struct run *run)
{
	if (!run)
		return;
	terms_unref(run->terms);
	budget_fini(&run->budget);
	arena_fini(&run->arena);
	free(run);
}

void run_set_begun(struct run *run, uint64_t begun_ms, uint64_t now_ms)
{
	uint64_t wall_ms = clock_ms(CLOCK_REALTIME);

	run->begun_ms = begun_ms;
	run->age_ms = wall_ms > begun_ms ? wall_ms - begun_ms : 0;
	run->since_ms = now_ms;
}

uint64_t run_ends_ms(const struct run *run)
{
	uint64_t limit_ms = run->terms->charter->config->run_limits.duration_ms;

	if (limit_ms == 0)
		return 0;
	return run->since_ms + (limit_ms > run->age_ms ? limit_ms - run->age_ms : 0);
}

int run_renew(struct run *run, struct charter *charter, struct err *err)
{
	struct terms *terms;
	int r = terms_new(charter, run->terms, &terms, err);

	if (r < 0)
		return r;
	terms_end(run->terms);
	terms_unref(run->terms);
	run->terms = terms;
	budget_limit(&run->budget, charter->config->egress_bytes,
		     charter->config->egress_host_bytes);
	return 0;
}
