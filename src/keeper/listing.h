/* SPDX-License-Identifier: MIT */
/*
 * What visitors of the control socket are told of runs, and of what has been used: each as words
 * NAME=VALUE.
 */
#ifndef KEEPER_LISTING_H
#define KEEPER_LISTING_H

#include "keeper/visitor.h"

/* The run of that name, if there is one that it may see; or NULL. */
const struct peer *listing_find(const struct visitor *visitor, const char *run_id);

/* Takes the one word that names a run into the visitor. False when it is none, or too early. */
bool listing_read_run_id(struct visitor *visitor, struct bytes words);

/* Requests: every run that it may see; one of them, with its meters. */
void listing_list(struct visitor *visitor, struct bytes words, uint64_t now_ms);
void listing_show(struct visitor *visitor, struct bytes words, uint64_t now_ms);

#endif
