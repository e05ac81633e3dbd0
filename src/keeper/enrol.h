/* SPDX-License-Identifier: MIT */
/*
 * A run asks to begin, at the control socket or on a link from another machine: the store says
 * whether it may, for a run has one link at a time and none once it is revoked.
 */
#ifndef KEEPER_ENROL_H
#define KEEPER_ENROL_H

#include "keeper/keeper.h"
#include "keeper/run.h"

#define ENROL_DRAINING "the keeper takes no more runs: it is being stopped"

struct enrolment;

/*
 * With a run, which is the callee's from then on, or with NULL and the reason, which is to be told
 * when it is on record (refused_tell_later).
 */
typedef void enrol_done(void *owner, struct run *run, const struct err *err, uint64_t now_ms);

/*
 * Copies the spec. `on_done` may be called before this returns; until it is, *place has what
 * enrol_cancel takes, and then NULL.
 */
void enrol_start(struct keeper *keeper, const struct run_spec *spec, enrol_done *on_done,
		 void *owner, struct enrolment **place, uint64_t now_ms);

/* `on_done` is not called any more. NULL is fine. */
void enrol_cancel(struct enrolment *enrolment);

#endif
