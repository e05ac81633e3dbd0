/* SPDX-License-Identifier: MIT */
/* What `warder spend` prints. */
#ifndef CMD_SPEND_PRINT_H
#define CMD_SPEND_PRINT_H

#include "audit/verify.h"
#include "keeper/reconcile.h"

#define SPEND_FAULTS_MAX 100 /* that are told one by one */

/* What is wrong with the chain of the audit log. */
struct spend_faults {
	struct audit_fault first[SPEND_FAULTS_MAX];
	uint64_t count;
};

/* To standard output: lines for people, or one JSON object. */
void spend_print_text(const struct reconcile_result *result, const struct spend_faults *faults);
void spend_print_json(const struct reconcile_result *result, const struct spend_faults *faults);

#endif
