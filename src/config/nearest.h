/* SPDX-License-Identifier: MIT */
/* Which of the known words somebody who wrote an unknown one may have meant. */
#ifndef CONFIG_NEAREST_H
#define CONFIG_NEAREST_H

#include "base/bytes.h"

struct nearest {
	struct bytes word;
	size_t distance;   /* a candidate must be nearer than this */
	const char *found; /* or NULL: nothing is like it */
};

/* Both the word and the candidates are borrowed. */
void nearest_init(struct nearest *nearest, struct bytes word);
void nearest_try(struct nearest *nearest, const char *candidate);

#endif
