/* SPDX-License-Identifier: MIT */
/* UTF-8 sequences: recognising them and not cutting them in two. */
#include "base/utf8.h"

#define MAX_SEQUENCE 4

/* RFC 3629 section 4: the second byte's range depends on the first. */
struct form {
	unsigned char first_low, first_high;
	unsigned char second_low, second_high;
	unsigned char len;
};

static const struct form forms[] = {
	{ 0x00, 0x7f, 0x00, 0x00, 1 }, { 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 },
	{ 0xe1, 0xec, 0x80, 0xbf, 3 }, { 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 },
	{ 0xf0, 0xf0, 0x90, 0xbf, 4 }, { 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
};

static const struct form *form_find(unsigned char first)
{
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		if (first >= forms[i].first_low && first <= forms[i].first_high)
			return &forms[i];
	return NULL;
}

/* How many of the bytes at `s` belong to a possible sequence of this form. */
static size_t match(const struct form *form, const unsigned char *s, size_t len)
{
	size_t n = 1;

	if (form->len > 1 && len > 1 && s[1] >= form->second_low && s[1] <= form->second_high)
		for (n = 2; n < form->len && n < len && s[n] >= 0x80 && s[n] <= 0xbf;)
			n++;
	return n;
}

size_t utf8_sequence(const char *s, size_t len)
{
	const struct form *form = len > 0 ? form_find((unsigned char)s[0]) : NULL;

	if (!form || match(form, (const unsigned char *)s, len) < form->len)
		return 0;
	return form->len;
}

size_t utf8_cut(const char *s, size_t len)
{
	for (size_t back = 1; back < MAX_SEQUENCE && back <= len; back++) {
		const unsigned char *p = (const unsigned char *)s + len - back;
		const struct form *form = form_find(*p);

		if (!form)
			continue; /* a continuation byte: look for what it continues */
		if (form->len > back && match(form, p, back) == back)
			return len - back;
		break;
	}
	return len;
}
