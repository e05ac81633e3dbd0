/* SPDX-License-Identifier: MIT */
/* The fixed parts of a record: its beginning and its end. */
#include "audit/record.h"

#define SEQ_DIGITS_MAX 18

static bool take(struct bytes *text, struct bytes expected)
{
	if (text->len < expected.len || memcmp(text->data, expected.data, expected.len) != 0)
		return false;
	bytes_take(text, expected.len);
	return true;
}

static bool take_number(struct bytes *text, uint64_t *ret_value)
{
	uint64_t value = 0;
	size_t len = 0;

	while (len < text->len && text->data[len] >= '0' && text->data[len] <= '9')
		value = value * 10 + (uint64_t)(text->data[len++] - '0');
	if (len == 0 || len > SEQ_DIGITS_MAX || (len > 1 && text->data[0] == '0'))
		return false;
	bytes_take(text, len);
	*ret_value = value;
	return true;
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static bool take_hash(struct bytes *text, struct bytes *ret_hash)
{
	if (text->len < AUDIT_HASH_LEN)
		return false;
	*ret_hash = bytes_take(text, AUDIT_HASH_LEN);
	for (size_t i = 0; i < AUDIT_HASH_LEN; i++)
		if (!is_hex(ret_hash->data[i]))
			return false;
	return true;
}

bool audit_record_parse(struct bytes line, struct audit_record *ret_record)
{
	static const struct bytes before_hash = BYTES(",\"hash\":\""), after_hash = BYTES("\"}");
	size_t end_len = before_hash.len + AUDIT_HASH_LEN + after_hash.len;
	struct bytes start = line, end, time;

	if (line.len <= end_len)
		return false;
	ret_record->hashed = (struct bytes){ line.data, line.len - end_len };
	end = (struct bytes){ line.data + ret_record->hashed.len, end_len };
	return take(&start, BYTES("{\"seq\":")) && take_number(&start, &ret_record->seq) &&
	       take(&start, BYTES(",\"time\":\"")) && bytes_split(&start, '"', &time) &&
	       take(&start, BYTES(",\"prev\":\"")) && take_hash(&start, &ret_record->prev) &&
	       take(&start, BYTES("\",\"event\":\"")) && take(&end, before_hash) &&
	       take_hash(&end, &ret_record->hash) && take(&end, after_hash);
}

bool audit_record_member(struct bytes *members, struct bytes *ret_key, struct bytes *ret_value)
{
	size_t len = 0;

	if (members->len && members->data[0] == ',')
		bytes_take(members, 1);
	if (members->len < 4 || members->data[0] != '"')
		return false;
	bytes_take(members, 1);
	if (!bytes_split(members, '"', ret_key) || members->len < 2)
		return false;
	bytes_take(members, 1); /* the colon */
	if (members->data[0] == '"') {
		for (len = 1; len < members->len && members->data[len] != '"'; len++)
			if (members->data[len] == '\\')
				len++;
		if (len >= members->len)
			return false;
		len++;
	} else {
		while (len < members->len && members->data[len] != ',')
			len++;
	}
	*ret_value = bytes_take(members, len);
	return true;
}

void audit_record_hash(struct bytes hashed, char *ret_hash)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char digest[DIGEST_LEN];

	digest_sha256(hashed, digest);
	for (size_t i = 0; i < DIGEST_LEN; i++) {
		ret_hash[2 * i] = digits[digest[i] >> 4];
		ret_hash[2 * i + 1] = digits[digest[i] & 15];
	}
	ret_hash[AUDIT_HASH_LEN] = '\0';
}
