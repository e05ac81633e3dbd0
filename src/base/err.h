/* SPDX-License-Identifier: MIT */
/* An error as a person will read it: one line that says what failed and what to do. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "base/attr.h"

#define ERR_TEXT_MAX 512

struct err {
	int code; /* an errno value; 0 while nothing has failed */
	char text[ERR_TEXT_MAX];
};

/*
 * Records "what: description of `code`" and returns -code. A NULL `err` only
 * returns. Allocates nothing, so a process between clone and exec may use it.
 */
int err_set(struct err *err, int code, const char *fmt, ...) printf_like(3);

/* The same without the system's description, for failures errno does not explain. */
int err_say(struct err *err, int code, const char *fmt, ...) printf_like(3);

/* Appends "; hint" to a recorded error: what would make it work. */
void err_hint(struct err *err, const char *fmt, ...) printf_like(2);

#endif
