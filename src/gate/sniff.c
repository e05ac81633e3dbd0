/* SPDX-License-Identifier: MIT */
/*
 * The first bytes.
 *
 * Of TLS the whole ClientHello is wanted (RFC 8446, section 4.1.2). It may be cut into records
 * anywhere, so it is looked at twice: first only the heads of records are hopped over, until there
 * are enough bytes in them; then it is read, once, by a cursor that leaves the heads out. So a
 * hello that comes byte by byte costs little more than one that comes at once.
 *
 * From here on the bytes are the agent's.
 */
#include "gate/sniff.h"

#include <stdint.h>

#include "base/attr.h"
#include "tls/alpn.h"

#define RECORD_HEAD    5
#define RECORD_MAX     16384
#define HANDSHAKE      22 /* the kind of record */
#define HANDSHAKE_HEAD 4
#define CLIENT_HELLO   1 /* the kind of message */
#define RANDOM_LEN     32
#define SESSION_ID_MAX 32
#define EXTENSION_SNI  0
#define EXTENSION_ALPN 16
#define SNI_HOST_NAME  0
#define METHOD_MAX     32
#define FIRST_LINE_MAX 2048
#define SOCKS5         5

/* ---- a cursor over what is in the records ---- */

struct cursor {
	struct bytes rest; /* in records, and their heads */
	size_t record_left;
	size_t left;   /* of the innermost thing that has a length */
	bool is_short; /* something said it was longer than what it is in */
};

static size_t record_len(struct bytes rest)
{
	return (size_t)(unsigned char)rest.data[3] << 8 | (unsigned char)rest.data[4];
}

static void skip_raw(struct cursor *cursor, size_t len)
{
	bytes_take(&cursor->rest, len);
	cursor->record_left -= len;
}

/* A piece of at most `len` bytes that lie together; there are that many, it was seen to. */
static struct bytes take_piece(struct cursor *cursor, size_t len)
{
	struct bytes piece;

	while (cursor->record_left == 0) {
		cursor->record_left = record_len(cursor->rest);
		bytes_take(&cursor->rest, RECORD_HEAD);
	}
	piece = (struct bytes){ cursor->rest.data,
				len < cursor->record_left ? len : cursor->record_left };
	skip_raw(cursor, piece.len);
	return piece;
}

/* Copies to `ret_bytes` unless that is NULL. False, and nothing more can be had, beyond the end. */
static bool take(struct cursor *cursor, size_t len, char *ret_bytes)
{
	if (cursor->is_short || len > cursor->left) {
		cursor->is_short = true;
		return false;
	}
	cursor->left -= len;
	while (len > 0) {
		struct bytes piece = take_piece(cursor, len);

		if (ret_bytes) {
			memcpy(ret_bytes, piece.data, piece.len);
			ret_bytes += piece.len;
		}
		len -= piece.len;
	}
	return true;
}

/* A number of `size` bytes; 0 beyond the end. */
static size_t take_number(struct cursor *cursor, size_t size)
{
	unsigned char bytes[3];
	size_t number = 0;

	if (!take(cursor, size, (char *)bytes))
		return 0;
	for (size_t i = 0; i < size; i++)
		number = number << 8 | bytes[i];
	return number;
}

/* Enters something of a length in `size` bytes; returns what leave() needs. */
static size_t enter(struct cursor *cursor, size_t size)
{
	size_t len = take_number(cursor, size), outside;

	if (cursor->is_short || len > cursor->left) {
		cursor->is_short = true;
		return 0;
	}
	outside = cursor->left - len;
	cursor->left = len;
	return outside;
}

/* Skips what is left of it. */
static void leave(struct cursor *cursor, size_t outside)
{
	if (take(cursor, cursor->left, NULL))
		cursor->left = outside;
}

/* Something of a length that is only passed over. */
static size_t pass(struct cursor *cursor, size_t size)
{
	size_t outside = enter(cursor, size), len = cursor->left;

	leave(cursor, outside);
	return cursor->is_short ? 0 : len;
}

/* ---- extensions ---- */

/* RFC 6066, section 3: a list, of one host name. Two could be read differently, so false. */
static bool read_sni(struct cursor *cursor, struct sniff_result *ret_result)
{
	size_t list = enter(cursor, 2), name, len;

	if (cursor->is_short || list != 0 || take_number(cursor, 1) != SNI_HOST_NAME)
		return false;
	name = enter(cursor, 2);
	len = cursor->left;
	if (cursor->is_short || name != 0 || len == 0 || len > SNIFF_SNI_MAX ||
	    !take(cursor, len, ret_result->sni))
		return false;
	ret_result->sni[len] = '\0';
	return strlen(ret_result->sni) == len;
}

static bool read_alpn(struct cursor *cursor, struct sniff_result *ret_result)
{
	size_t list = enter(cursor, 2);

	if (cursor->is_short || list != 0 || cursor->left == 0)
		return false;
	while (cursor->left > 0) {
		size_t outside = enter(cursor, 1), len = cursor->left;
		char name[UINT8_MAX];
		enum tls_alpn alpn;

		if (cursor->is_short || len == 0 || !take(cursor, len, name))
			return false;
		leave(cursor, outside);
		alpn = tls_alpn_find((struct bytes){ name, len });
		ret_result->alpn |= alpn;
		if (alpn == TLS_ALPN_NONE)
			ret_result->has_other_alpn = true;
	}
	return true;
}

static const struct {
	size_t type;
	bool (*read)(struct cursor *cursor, struct sniff_result *ret_result);
} extensions[] = {
	{ EXTENSION_SNI, read_sni },
	{ EXTENSION_ALPN, read_alpn },
};

static bool read_extension(struct cursor *cursor, unsigned int *seen,
			   struct sniff_result *ret_result)
{
	size_t type = take_number(cursor, 2), outside = enter(cursor, 2);

	for (size_t i = 0; i < ARRAY_LEN(extensions) && !cursor->is_short; i++) {
		if (extensions[i].type != type)
			continue;
		if (*seen & 1U << i || !extensions[i].read(cursor, ret_result))
			return false; /* RFC 8446, section 4.2: one of each */
		*seen |= 1U << i;
	}
	leave(cursor, outside);
	return !cursor->is_short;
}

static bool read_hello(struct cursor *cursor, struct sniff_result *ret_result)
{
	unsigned int seen = 0;
	size_t major = take_number(cursor, 1), outside;

	take(cursor, 1 + RANDOM_LEN, NULL);
	if (pass(cursor, 1) > SESSION_ID_MAX || major != 3)
		return false;
	if (pass(cursor, 2) < 2 || pass(cursor, 1) < 1) /* cipher suites, compression */
		return false;
	if (cursor->left == 0)
		return !cursor->is_short; /* TLS 1.2 without any */
	outside = enter(cursor, 2);
	if (outside != 0)
		return false; /* there is nothing after them */
	while (cursor->left > 0 && !cursor->is_short)
		if (!read_extension(cursor, &seen, ret_result))
			return false;
	return !cursor->is_short;
}

/* ---- records ---- */

/* The head of a message, or as much of it as there is, whatever records it is in. */
static size_t message_len(struct bytes first)
{
	struct cursor cursor = { .rest = first, .left = HANDSHAKE_HEAD };

	take(&cursor, 1, NULL);
	return HANDSHAKE_HEAD + take_number(&cursor, 3);
}

static bool is_record(struct bytes head)
{
	static const unsigned char expected[] = { HANDSHAKE, 3 };
	size_t len = head.len < sizeof(expected) ? head.len : sizeof(expected);

	if (memcmp(head.data, expected, len) != 0)
		return false;
	/* RFC 8446, section 5.1: no record of a handshake is empty. */
	return head.len < RECORD_HEAD || (record_len(head) > 0 && record_len(head) <= RECORD_MAX);
}

/* Counts what is in the records that are there, the last one perhaps in part. */
static enum sniff_kind gather(struct bytes first, size_t *ret_len)
{
	struct bytes rest = first;
	size_t wanted = HANDSHAKE_HEAD;

	*ret_len = 0;
	while (rest.len > 0 && *ret_len < wanted) {
		size_t len;

		if (!is_record(rest))
			return SNIFF_OTHER;
		if (rest.len < RECORD_HEAD)
			break;
		len = record_len(rest);
		bytes_take(&rest, RECORD_HEAD);
		if (len > rest.len)
			len = rest.len;
		if (*ret_len == 0 && len > 0 && rest.data[0] != CLIENT_HELLO)
			return SNIFF_OTHER;
		*ret_len += len;
		bytes_take(&rest, len);
		if (wanted == HANDSHAKE_HEAD && *ret_len >= HANDSHAKE_HEAD)
			wanted = message_len(first);
		if (wanted > SNIFF_MAX)
			return SNIFF_OTHER;
	}
	if (*ret_len < wanted)
		return SNIFF_NEEDS_MORE;
	*ret_len = wanted;
	return SNIFF_TLS;
}

static enum sniff_kind sniff_tls(struct bytes first, struct sniff_result *ret_result)
{
	struct cursor cursor = { .rest = first };
	enum sniff_kind kind = gather(first, &cursor.left);

	if (kind != SNIFF_TLS)
		return kind;
	take(&cursor, HANDSHAKE_HEAD, NULL);
	return read_hello(&cursor, ret_result) ? SNIFF_TLS : SNIFF_OTHER;
}

/* ---- HTTP ---- */

static bool is_token_char(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_known_method(struct bytes method)
{
	static const char *const known[] = { "GET",     "HEAD",    "POST",  "PUT",  "DELETE",
					     "CONNECT", "OPTIONS", "TRACE", "PATCH" };

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (bytes_equal(bytes_of(known[i]), method))
			return true;
	return false;
}

/* Many protocols begin with a word and a space, but only one ends its first line like this. */
static enum sniff_kind judge_line(struct bytes first)
{
	static const char mark[] = " HTTP/";
	struct bytes line;

	if (first.len > FIRST_LINE_MAX)
		first.len = FIRST_LINE_MAX;
	if (!bytes_split(&first, '\n', &line))
		return first.len == FIRST_LINE_MAX ? SNIFF_OTHER : SNIFF_NEEDS_MORE;
	return memmem(line.data, line.len, mark, sizeof(mark) - 1) ? SNIFF_HTTP1 : SNIFF_OTHER;
}

static enum sniff_kind sniff_http1(struct bytes first)
{
	static const char blank[] = "\r\n"; /* one empty line before a request is skipped */
	size_t len = 0;

	for (size_t i = 0; blank[i] && first.len > 0 && first.data[0] == blank[i]; i++)
		bytes_take(&first, 1);
	while (len < first.len && len < METHOD_MAX && is_token_char(first.data[len]))
		len++;
	if (len == first.len)
		return SNIFF_NEEDS_MORE;
	if (len == 0 || first.data[len] != ' ')
		return SNIFF_OTHER;
	if (is_known_method((struct bytes){ first.data, len }))
		return SNIFF_HTTP1;
	return judge_line(first);
}

/* RFC 9113, section 3.4. */
static enum sniff_kind sniff_http2(struct bytes first)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	size_t len = sizeof(preface) - 1;

	if (memcmp(first.data, preface, first.len < len ? first.len : len) != 0)
		return SNIFF_OTHER;
	return first.len < len ? SNIFF_NEEDS_MORE : SNIFF_HTTP2;
}

static enum sniff_kind sniff_text(struct bytes first)
{
	enum sniff_kind kind = sniff_http2(first);

	return kind == SNIFF_OTHER ? sniff_http1(first) : kind;
}

enum sniff_kind sniff(struct bytes first, struct sniff_result *ret_result)
{
	enum sniff_kind kind;

	*ret_result = (struct sniff_result){ .alpn = TLS_ALPN_NONE };
	if (first.len == 0)
		return SNIFF_NEEDS_MORE;
	if (first.data[0] == SOCKS5)
		return SNIFF_SOCKS5;
	kind = first.data[0] == HANDSHAKE ? sniff_tls(first, ret_result) : sniff_text(first);
	if (kind == SNIFF_NEEDS_MORE && first.len >= SNIFF_MAX)
		kind = SNIFF_OTHER;
	if (kind != SNIFF_TLS) /* what was read of a hello that is none */
		*ret_result = (struct sniff_result){ .alpn = TLS_ALPN_NONE };
	return kind;
}
