/* SPDX-License-Identifier: MIT */
/*
 * What a keeper tells whoever started a run, in the packets of sys/status.h: at its beginning what
 * the run has to know, at its end what became of it. They go to whoever started a private keeper,
 * to the control socket of a shared one, or over the link to another machine.
 */
#ifndef KEEPER_REPORT_H
#define KEEPER_REPORT_H

#include "keeper/peer.h"
#include "sys/status.h"

/* Where packets go. 0 or -errno. */
struct report_sink {
	int (*send)(void *owner, enum status_type type, struct bytes text);
	void *owner;
};

/* What the agent has in place of its secrets, as variables. 0 or -errno. */
int report_placeholders(const struct run *run, const struct report_sink *sink) must_check;

/* Who it is, options as of a file, the placeholders, and that it may begin. 0 or -errno. */
int report_begin(const struct run *run, const struct report_sink *sink) must_check;

/* Hosts that were refused, and the summary, once the records are written. `audit` is the log. */
int report_end(const struct peer *peer, const char *audit,
	       const struct report_sink *sink) must_check;

#endif
