/* SPDX-License-Identifier: MIT */
/*
 * The carrier: it stands where a private keeper would, and takes the link to one on another
 * machine.
 *
 *   gate ──link── carrier ══TLS 1.3══ keeper
 *                    └─ status ─ whoever started the run
 *
 * It begins with the run's token, by which the keeper knows the run. From then on it copies what
 * gate and keeper say to each other as it is, a message's header at a time, and hands what the
 * keeper has to say to the starter (NOTICE) to the starter. It decides nothing and holds no secret
 * but the token, which is wiped once it is sent.
 *
 * Whoever is slow slows the other one: while more than a megabyte waits for one side, the other is
 * not read. The end comes from any side:
 *
 *   the gate ends, or the starter says that it is done: BYE to the keeper, and a moment for its
 *   last words
 *   the starter is gone: at once
 *   the keeper ends, or is not heard of for half a minute: at once, with the reason, if nobody had
 *   said goodbye
 */
#ifndef CARRIER_CARRIER_H
#define CARRIER_CARRIER_H

#include <stdint.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "base/err.h"

#define CARRIER_CONNECT_MS 10000 /* to find and reach the keeper */
#define CARRIER_TLS_MS     10000
#define CARRIER_LEAVE_MS   2000 /* for the keeper's last words */

struct carrier_config {
	const char *host; /* as it is dialled, and as the certificate must have it */
	uint16_t port;
	const char *ca; /* a file of authorities instead of the system's, or NULL */
	struct bytes token;
	int gate_fd;    /* the link: not blocking; closed at the end */
	int starter_fd; /* watched for its end only */
	/* Hands a packet to the starter; not 0: it is gone. */
	int (*on_notice)(char letter, struct bytes text);
	/* The link is there: what is not needed any more is given up. The token is wiped after it.
	 */
	int (*on_connected)(struct err *err);
};

/*
 * Until the link has ended. 0 when it did so in good order; or -errno and why, in words that are
 * for the starter; -ECANCELED: there is nothing to say, or nobody to say it to.
 */
int carrier_run(const struct carrier_config *config, struct err *err) must_check;

#endif
