/* SPDX-License-Identifier: MIT */
/*
 * Nothing in the file is encrypted or signed, so that all there is to it are nested lengths (DER):
 *
 *   PFX { version 3, data { safe [ data { bags [ bag ... ] } ] } }
 *   bag { certBag, { x509Certificate, data }, { trustedKeyUsage: any } }
 *
 * Written here and not by OpenSSL, which would have to parse every certificate, in a program that
 * has to start in a moment.
 */
#include "cmd/keystore.h"

#include "base/die.h"

#include <stdlib.h>

#define BEGIN "-----BEGIN CERTIFICATE-----"
#define END   "-----END CERTIFICATE-----"

enum tag {
	TAG_OCTETS = 0x04,
	TAG_SEQUENCE = 0x30,
	TAG_SET = 0x31,
	TAG_CONTEXT_0 = 0xa0,
};

static const char version_3[] = "\x02\x01\x03";
static const char oid_data[] = "\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01";
static const char oid_cert_bag[] = "\x06\x0b\x2a\x86\x48\x86\xf7\x0d\x01\x0c\x0a\x01\x03";
static const char oid_x509[] = "\x06\x0a\x2a\x86\x48\x86\xf7\x0d\x01\x09\x16\x01";
/* SET { SEQUENCE { 2.16.840.1.113894.746875.1.1, SET { anyExtendedKeyUsage } } } */
static const char trusted_for_any[] = "\x31\x18\x30\x16"
				      "\x06\x0c\x60\x86\x48\x01\x86\xf9\x66\xad\xca\x7b\x01\x01"
				      "\x31\x06\x06\x04\x55\x1d\x25\x00";

/* ---- lengths ---- */

/* Bytes that a length takes. */
static size_t length_size(size_t len)
{
	size_t size = 1;

	for (size_t rest = len; len >= 0x80 && rest > 0; rest >>= 8)
		size++;
	return size;
}

/* Bytes that a value of `len` takes, with its tag. */
static size_t whole(size_t len)
{
	return 1 + length_size(len) + len;
}

static void put_tag(struct buf *out, enum tag tag, size_t len)
{
	size_t size = length_size(len);
	char head[2 + sizeof(len)] = { (char)tag, (char)(size == 1 ? len : 0x80 | (size - 1)) };

	for (size_t i = 1; i < size; i++)
		head[1 + i] = (char)(len >> 8 * (size - 1 - i));
	buf_add(out, head, 1 + size);
}

static void put(struct buf *out, const char *bytes, size_t size)
{
	buf_add(out, bytes, size - 1); /* without the NUL of a literal */
}

/* ---- PEM ---- */

#define NO_DIGIT 0xff

/* The value of every character of base64; the rest is NO_DIGIT. */
struct digits {
	unsigned char value[UINT8_MAX + 1];
};

static void fill(struct digits *digits)
{
	static const char
		all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	memset(digits->value, NO_DIGIT, sizeof(digits->value));
	for (size_t i = 0; all[i]; i++)
		digits->value[(unsigned char)all[i]] = (unsigned char)i;
}

/* Decodes what is between the lines; line ends and padding are passed over. */
static size_t decode(const struct digits *digits, struct bytes text, char *ret_der)
{
	unsigned int bits = 0, count = 0;
	size_t len = 0;

	for (size_t i = 0; i < text.len; i++) {
		unsigned char value = digits->value[(unsigned char)text.data[i]];

		if (value == NO_DIGIT)
			continue;
		bits = bits << 6 | value;
		if (count % 4 != 0) /* of four characters the first gives no byte yet */
			ret_der[len++] = (char)(bits >> 2 * (3 - count % 4));
		count++;
	}
	return len;
}

/* Takes the next certificate's text off the front; false: there is none. */
static bool next(struct bytes *pem, struct bytes *ret_text)
{
	const char *begin = memmem(pem->data, pem->len, BEGIN, sizeof(BEGIN) - 1), *end;

	if (!begin)
		return false;
	bytes_take(pem, (size_t)(begin - pem->data) + sizeof(BEGIN) - 1);
	end = memmem(pem->data, pem->len, END, sizeof(END) - 1);
	if (!end)
		return false;
	*ret_text = bytes_take(pem, (size_t)(end - pem->data));
	return true;
}

/* ---- the file ---- */

static void put_bag(struct buf *out, struct bytes der)
{
	size_t octets = whole(der.len);
	size_t cert = sizeof(oid_x509) - 1 + whole(octets);
	size_t bag = sizeof(oid_cert_bag) - 1 + whole(whole(cert)) + sizeof(trusted_for_any) - 1;

	put_tag(out, TAG_SEQUENCE, bag);
	put(out, oid_cert_bag, sizeof(oid_cert_bag));
	put_tag(out, TAG_CONTEXT_0, whole(cert));
	put_tag(out, TAG_SEQUENCE, cert);
	put(out, oid_x509, sizeof(oid_x509));
	put_tag(out, TAG_CONTEXT_0, octets);
	put_tag(out, TAG_OCTETS, der.len);
	buf_add(out, der.data, der.len);
	put(out, trusted_for_any, sizeof(trusted_for_any));
}

/* The length of { data, [0] { OCTETS of `len` } }, without its own tag. */
static size_t content_len(size_t len)
{
	return sizeof(oid_data) - 1 + whole(whole(len));
}

static void put_content(struct buf *out, size_t len)
{
	put_tag(out, TAG_SEQUENCE, content_len(len));
	put(out, oid_data, sizeof(oid_data));
	put_tag(out, TAG_CONTEXT_0, whole(len));
	put_tag(out, TAG_OCTETS, len);
}

void keystore_format(struct bytes pem, struct buf *out)
{
	char *der = malloc(pem.len + 1); /* more than any of them needs */
	struct bytes text;
	struct buf bags;
	struct digits digits;
	size_t content, safe;

	if (!der)
		die_no_memory();
	fill(&digits);
	buf_init(&bags, 2 * pem.len + 1024);
	while (next(&pem, &text))
		put_bag(&bags, (struct bytes){ der, decode(&digits, text, der) });
	content = content_len(whole(bags.len));
	safe = whole(whole(content));
	put_tag(out, TAG_SEQUENCE, sizeof(version_3) - 1 + whole(content_len(safe)));
	put(out, version_3, sizeof(version_3));
	put_content(out, safe);
	put_tag(out, TAG_SEQUENCE, whole(content));
	put_content(out, whole(bags.len));
	put_tag(out, TAG_SEQUENCE, bags.len);
	buf_add(out, bags.data, bags.len);
	buf_fini(&bags);
	free(der);
}
