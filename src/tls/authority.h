/* SPDX-License-Identifier: MIT */
/*
 * The authority of one run: a certificate that only this run's sandbox is told to trust, and the
 * certificates it signs for the names that the agent connects to.
 *
 * Its keys are made here, stay in this process's memory and end with it: nothing is written
 * anywhere. What can be had by reading them is what the agent itself sends and receives.
 */
#ifndef TLS_AUTHORITY_H
#define TLS_AUTHORITY_H

#include "base/attr.h"
#include "base/bytes.h"
#include "base/err.h"

#define TLS_AUTHORITY_LEAVES_MAX 256 /* kept; the least recently used one is forgotten first */

struct tls_authority;

/*
 * "warder run RUNID", valid from a day ago for a week from now: a run that lasts longer has no
 * TLS any more. To be called before the process is confined: the C library looks for its time zone
 * here, and afterwards nothing is opened any more.
 */
int tls_authority_new(const char *run_id, struct tls_authority **ret_authority,
		      struct err *err) must_check;

/* No handshake may be under way any more; streams live on. */
void tls_authority_free(struct tls_authority *authority);

/* The certificate, without any key: for the sandbox's trust stores. The authority's own. */
struct bytes tls_authority_pem(const struct tls_authority *authority);

#endif
