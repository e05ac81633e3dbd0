/* SPDX-License-Identifier: MIT */
/*
 * The forms that a text takes on its way: as it is, escaped as JSON encoders do, percent-encoded,
 * in base64 at each of the three places where it can begin in a group, in hexadecimal.
 */
#ifndef KEEPER_FORM_H
#define KEEPER_FORM_H

#include "base/attr.h"
#include "base/bytes.h"

#define FORMS_MAX      64
#define FORM_SIZE(len) ((len)*8 + 16) /* room for any form of `len` bytes */

/* Kinds of forms, as a mask. */
enum form_kind {
	FORM_RAW = 1,
	FORM_JSON = 2,
	FORM_PERCENT = 4,
	FORM_BASE64 = 8, /* also when it is escaped in its turn */
	FORM_HEX = 16,
};
#define FORM_ANY 31

size_t form_count(void);

enum form_kind form_kind(size_t form);

/*
 * Writes the text's form of that number (below form_count), and returns its length. Of base64
 * these are the digits that depend on nothing but the text, and perhaps that it is the end.
 */
size_t form_write(size_t form, struct bytes text, char *ret_text);

/* base64 with padding (RFC 4648 section 4); `ret_text` has room for (len + 2) / 3 * 4. */
size_t form_write_base64(struct bytes text, char *ret_text);

/*
 * Reads it, with padding or without; `ret_text` has room for as much as there is. -EINVAL for
 * any other character, a length that cannot be, or bits that are left over and not zero.
 */
int form_read_base64(struct bytes digits, char *ret_text, size_t *ret_len) must_check;

#endif
