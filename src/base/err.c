/* SPDX-License-Identifier: MIT */
/* Error texts in a fixed buffer. */
#include "base/err.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

static void append(struct err *err, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));

/*
 * What is quoted in an error may have been chosen by somebody else. It is to stay one
 * line, and to be shown by a terminal, not acted on: no C0 or C1 control characters.
 */
static void defuse(char *text)
{
	for (unsigned char *p = (unsigned char *)text; *p; p++) {
		bool is_c1 = p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0;

		if (*p < 0x20 || *p == 0x7f)
			*p = '?';
		else if (is_c1)
			p[0] = p[1] = '?';
	}
}

static void append(struct err *err, const char *fmt, va_list ap)
{
	size_t used = strnlen(err->text, sizeof(err->text) - 1);

	vsnprintf(err->text + used, sizeof(err->text) - used, fmt, ap);
	defuse(err->text + used);
}

static void append_text(struct err *err, const char *fmt, ...) printf_like(2);

static void append_text(struct err *err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	append(err, fmt, ap);
	va_end(ap);
}

static void record(struct err *err, int code, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));

static void record(struct err *err, int code, const char *fmt, va_list ap)
{
	err->code = code;
	err->text[0] = '\0';
	append(err, fmt, ap);
}

int err_set(struct err *err, int code, const char *fmt, ...)
{
	const char *why = strerrordesc_np(code);
	va_list ap;

	if (!err)
		return -code;
	va_start(ap, fmt);
	record(err, code, fmt, ap);
	va_end(ap);
	append_text(err, ": %s", why ? why : "unknown error");
	return -code;
}

int err_say(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return -code;
	va_start(ap, fmt);
	record(err, code, fmt, ap);
	va_end(ap);
	return -code;
}

void err_hint(struct err *err, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return;
	append_text(err, "; ");
	va_start(ap, fmt);
	append(err, fmt, ap);
	va_end(ap);
}
