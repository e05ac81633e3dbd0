/* SPDX-License-Identifier: MIT */
/*
 * What a run says of itself when it is registered: words NAME=VALUE, of run-id, attempt, account
 * and metadata.NAME. No input and output: a packet in, who it is out.
 */
#ifndef KEEPER_REGISTRATION_H
#define KEEPER_REGISTRATION_H

#include "config/keeper_config.h"
#include "keeper/run.h"

struct registration {
	struct run_spec spec; /* what it points to is in the words, or in here */
	struct keeper_metadata metadata[KEEPER_METADATA_MAX];
	bool has_attempt;
};

/*
 * Reads words, each with its NUL, which are changed on the way. What is not as the options of a run
 * would have it is what `err` explains: each name once, nothing that could end a line, nothing that
 * the keeper says itself (INV-RUN-IDENTITY).
 */
int registration_parse(struct registration *registration, char *words, size_t len,
		       struct err *err) must_check;

#endif
