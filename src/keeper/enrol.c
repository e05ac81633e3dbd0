/* SPDX-License-Identifier: MIT */
/* Enrolment. */
#include "keeper/enrol.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/die.h"
#include "keeper/refusal.h"
#include "keeper/run_time.h"
#include "sys/rlimit.h"

struct enrolment {
	struct store_run request; /* first */
	struct keeper *keeper;
	struct run *run;
	enrol_done *on_done; /* NULL: nobody waits for it any more */
	void *owner;
	struct enrolment **place;
	char from[64]; /* for the record */
};

static enum refusal say_why_not(const struct enrolment *enrolment, struct err *err)
{
	const char *run_id = enrolment->run->run_id;

	switch (enrolment->request.verdict) {
	case STORE_IS_REVOKED:
		err_say(err, EACCES, "run %s was revoked", run_id);
		return REFUSAL_REVOKED;
	case STORE_HAS_LINK:
		err_say(err, EBUSY, "run %s has a link already; one at a time", run_id);
		return REFUSAL_HAS_LINK;
	default:
		err_say(err, EHOSTUNREACH,
			"the keeper's store cannot be reached; try again when it is back");
		return REFUSAL_STORE;
	}
}

/* Nobody begins unseen, and nobody is sent away unseen. */
static void refuse(struct enrolment *enrolment, uint64_t now_ms)
{
	struct err err;
	enum refusal refusal = say_why_not(enrolment, &err);

	refused_record(enrolment->keeper,
		       &(struct refused_link){ .run_id = enrolment->run->run_id,
					       .attempt = enrolment->run->attempt,
					       .from = enrolment->from,
					       .refusal = refusal });
	enrolment->on_done(enrolment->owner, NULL, &err, now_ms);
}

static void on_answer(struct store_run *request, uint64_t now_ms)
{
	struct enrolment *enrolment = (struct enrolment *)(void *)request;
	struct store *store = enrolment->keeper->store;
	struct run *run = enrolment->run;

	enrolment->keeper->metrics.store_requests[request->verdict]++;
	if (enrolment->on_done)
		*enrolment->place = NULL;
	if (request->verdict == STORE_GRANTED && enrolment->on_done) {
		run->is_enrolled = true;
		run_time_begin(enrolment->keeper, run, request->begun_ms, now_ms);
		enrolment->on_done(enrolment->owner, run, NULL, now_ms);
	} else {
		if (request->verdict == STORE_GRANTED)
			store->ops->close_run(store, run->run_id, now_ms);
		if (enrolment->on_done)
			refuse(enrolment, now_ms);
		run_free(run);
	}
	free(enrolment);
}

/*
 * What stands against any run. INV-BOUNDED: a quarter of the descriptors is left for connections of
 * the runs that there are, which would otherwise have to be refused one by one. The kernel gives
 * out the lowest that is free, so those below the new link's are all in use.
 */
static enum refusal find_obstacle(const struct keeper *keeper, const struct run_spec *spec,
				  struct err *err)
{
	uint64_t most = rlimit_get(RLIMIT_NOFILE);

	if (keeper->is_draining) {
		err_say(err, ESHUTDOWN, ENROL_DRAINING);
		return REFUSAL_DRAINING;
	}
	if ((uint64_t)spec->link_fd < most - most / 4)
		return REFUSAL_NONE;
	err_say(err, EMFILE,
		"the keeper has no room for another run: of its %" PRIu64
		" descriptors a quarter is left; raise that limit, or wait",
		most);
	return REFUSAL_TOO_MANY_RUNS;
}

static int check_room(struct keeper *keeper, const struct run_spec *spec, struct err *err)
{
	enum refusal refusal = find_obstacle(keeper, spec, err);

	if (refusal == REFUSAL_NONE)
		return 0;
	refused_record(keeper, &(struct refused_link){ .run_id = spec->run_id,
						       .attempt = spec->attempt,
						       .from = spec->from,
						       .refusal = refusal });
	return -err->code;
}

void enrol_start(struct keeper *keeper, const struct run_spec *spec, enrol_done *on_done,
		 void *owner, struct enrolment **place, uint64_t now_ms)
{
	struct store *store = keeper->store;
	struct enrolment *enrolment;
	struct err err;
	struct run *run = check_room(keeper, spec, &err) < 0 ? NULL
							     : run_new(keeper->charter, spec, &err);

	if (!run) {
		*place = NULL;
		on_done(owner, NULL, &err, now_ms);
		return;
	}
	enrolment = calloc(1, sizeof(*enrolment));
	if (!enrolment)
		die_no_memory();
	enrolment->keeper = keeper;
	enrolment->run = run;
	enrolment->on_done = on_done;
	enrolment->owner = owner;
	enrolment->place = place;
	snprintf(enrolment->from, sizeof(enrolment->from), "%s", spec->from ? spec->from : "");
	enrolment->request = (struct store_run){
		.run_id = run->run_id,
		.account = run->account ? run->account : "",
		.attempt = run->attempt,
		.age_ms = run_time_age(keeper, run->run_id, now_ms),
		.on_done = on_answer,
	};
	*place = enrolment;
	store->ops->open_run(store, &enrolment->request, now_ms);
}

void enrol_cancel(struct enrolment *enrolment)
{
	if (enrolment)
		enrolment->on_done = NULL;
}
