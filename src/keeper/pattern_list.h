/* SPDX-License-Identifier: MIT */
/* Patterns while they are collected: the forms of secrets and of placeholders. */
#ifndef KEEPER_PATTERN_LIST_H
#define KEEPER_PATTERN_LIST_H

#include "keeper/automaton.h"

struct pattern_block;

struct pattern_list {
	struct pattern *patterns;
	struct pattern_block *blocks; /* what they point to */
	size_t count;
	size_t bytes; /* of their texts */
};

void pattern_list_init(struct pattern_list *list);

/* Wipes what it frees. */
void pattern_list_fini(struct pattern_list *list);

/*
 * Copies a pattern, unless the list has one with that text: the first counts. 0, or -E2BIG beyond
 * what an automaton takes.
 */
int pattern_list_add(struct pattern_list *list, const struct pattern *pattern) must_check;

/* Whether they differ in nothing but letters and digits: then no form says more than another. */
bool pattern_is_of_same_shape(struct bytes a, struct bytes b);

/* What matters about a form that takes another's place. */
enum pattern_fit {
	PATTERN_SAME_LENGTH, /* cut, or filled with asterisks; short forms are left out */
	PATTERN_SAME_SYNTAX, /* of different shapes: the form that is right everywhere */
};

/*
 * Adds every form of `kinds` (form.h) of a pattern: its replacement is the same form of the
 * pattern's. FORM_RAW beside another kind is how that is typed by people: right there is only the
 * other one. Results as above.
 */
int pattern_list_add_forms(struct pattern_list *list, const struct pattern *pattern,
			   unsigned int kinds, enum pattern_fit fit) must_check;

#endif
