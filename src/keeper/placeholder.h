/* SPDX-License-Identifier: MIT */
/*
 * What the agent has in place of a secret: random, as long as the value, and of its shape, so
 * that libraries which look at a key before they use it accept it, and lengths stay what they
 * are when one takes the other's place.
 */
#ifndef KEEPER_PLACEHOLDER_H
#define KEEPER_PLACEHOLDER_H

#include "base/attr.h"
#include "base/bytes.h"

/* A shorter value has no placeholder that could not turn up by chance. */
#define PLACEHOLDER_MIN 8

/*
 * Writes value.len characters and a NUL. The beginning by which such a key is known (sk-,
 * ghp_, xoxb- ...) stays, and whatever is not a letter or digit stays where it is: then every
 * form of the placeholder (escaped, percent-encoded) is as long as the value's. Letters and
 * digits are random ones. Where too few of these would be left, less is kept, or nothing.
 * 0, -EINVAL (too short) or -errno.
 */
int placeholder_make(struct bytes value, char *ret_text) must_check;

/* How many random characters take the place of a mark. */
#define PLACEHOLDER_RANDOM 24

/*
 * Writes a text that an operator chose and a NUL, with random characters in the place of `mark`,
 * if that is in it: at most PLACEHOLDER_RANDOM more than the text has. 0 or -errno.
 */
int placeholder_fill(const char *text, const char *mark, char *ret_text) must_check;

#endif
