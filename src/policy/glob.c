/* SPDX-License-Identifier: MIT */
/* Path globs, matched by following all their readings at once: no path makes one go back. */
#include "policy/glob.h"

#include "http/charset.h"
#include "http/path.h"

enum {
	TOKEN_STAR = 256, /* any byte but a slash, any number of times */
	TOKEN_STARS,      /* any byte, any number of times */
};

/* Takes one byte, decoded; false for what servers read differently, though it is plain. */
static bool take_byte(struct bytes *text, unsigned char *ret_byte)
{
	char c = bytes_take(text, 1).data[0];

	*ret_byte = (unsigned char)c;
	if (c == '%') {
		int high = text->len >= 2 ? hex_digit(text->data[0]) : -1;
		int low = text->len >= 2 ? hex_digit(text->data[1]) : -1;

		if (high < 0 || low < 0)
			return false;
		bytes_take(text, 2);
		*ret_byte = (unsigned char)(high << 4 | low);
	}
	/* C0 and C1 begin overlong forms, in which decoders of old saw dots and slashes. */
	return *ret_byte >= 0x20 && *ret_byte != 0x7f && *ret_byte != 0xc0 && *ret_byte != 0xc1;
}

static const char *find_fault(struct bytes text, bool is_loose)
{
	if (text.len > GLOB_MAX)
		return "is too long";
	if (text.len > 0 && memchr(text.data, '?', text.len))
		return "has a '?': rules do not look at the query";
	if (!charset_is_target(text))
		return "has a fragment, or characters that are not in paths";
	if (is_loose && memchr(text.data, ';', text.len))
		return "has a ';': a deny does not look at parameters";
	if (!http_path_is_plain(text))
		return "has dot or empty segments, backslashes, or encoded slashes or percent "
		       "signs, so that no request could match it";
	return NULL;
}

const char *glob_parse(struct arena *arena, struct bytes text, bool is_loose, struct glob *ret_glob)
{
	const char *fault = find_fault(text, is_loose);
	uint16_t *tokens;
	bool has_star = false;

	if (fault)
		return fault;
	tokens = arena_alloc(arena, text.len * sizeof(*tokens));
	*ret_glob = (struct glob){ .tokens = tokens, .is_loose = is_loose };
	while (text.len > 0) {
		bool is_star = text.data[0] == '*';
		unsigned char byte;

		if (!take_byte(&text, &byte))
			return "has a broken escape, or an encoded control character";
		if (!is_star)
			tokens[ret_glob->len++] = (unsigned char)(is_loose ? ascii_lower((char)byte)
									   : byte);
		else if (text.len == 0 || text.data[0] != '*')
			tokens[ret_glob->len++] = TOKEN_STAR;
		else
			tokens[ret_glob->len++] = TOKEN_STARS;
		while (is_star && text.len > 0 && text.data[0] == '*')
			bytes_take(&text, 1);
		has_star = has_star || is_star;
		ret_glob->prefix_len += !has_star;
	}
	return NULL;
}

static void add_loosely(struct glob_path *path, bool is_parameter, unsigned char byte)
{
	if (!is_parameter)
		path->loose[path->loose_len++] = ascii_lower((char)byte);
}

void glob_path_read(struct bytes path, struct glob_path *ret_path)
{
	bool is_parameter = false;

	ret_path->exact_len = ret_path->loose_len = 0;
	ret_path->is_plain = path.len <= HTTP_TARGET_MAX && http_path_is_plain(path);
	while (ret_path->is_plain && path.len > 0) {
		bool is_semicolon = path.data[0] == ';';
		unsigned char byte;

		ret_path->is_plain = take_byte(&path, &byte);
		is_parameter = byte != '/' && (is_parameter || is_semicolon);
		ret_path->exact[ret_path->exact_len++] = (char)byte;
		add_loosely(ret_path, is_parameter, byte);
	}
	if (ret_path->is_plain && ret_path->loose[ret_path->loose_len - 1] != '/')
		ret_path->loose[ret_path->loose_len++] = '/';
}

/*
 * A place in a glob is how many of its tokens are done with. `is_at` has the places that some
 * reading of the path so far has come to. From a star every reading may also go on after it;
 * and what has come to two stars needs nothing before them any more: *ret_first.
 */
static bool pass_stars(const uint16_t *tokens, size_t len, bool *is_at, size_t *ret_first)
{
	bool is_anywhere = is_at[len];

	for (size_t i = *ret_first; i < len; i++) {
		if (!is_at[i])
			continue;
		is_anywhere = true;
		if (tokens[i] >= TOKEN_STAR)
			is_at[i + 1] = true;
		if (tokens[i] == TOKEN_STARS)
			*ret_first = i;
	}
	return is_anywhere;
}

static bool matches_rest(const uint16_t *tokens, size_t len, struct bytes text)
{
	bool is_at[GLOB_MAX + 1] = { [0] = true };
	size_t first = 0;
	bool is_anywhere = pass_stars(tokens, len, is_at, &first);

	for (size_t at = 0; at < text.len && is_anywhere; at++) {
		unsigned char byte = (unsigned char)text.data[at];

		is_at[len] = false;
		for (size_t i = len; i-- > first;) {
			bool stays = tokens[i] == TOKEN_STARS ||
				     (tokens[i] == TOKEN_STAR && byte != '/');

			if (is_at[i] && tokens[i] == byte)
				is_at[i + 1] = true;
			is_at[i] = is_at[i] && stays;
		}
		is_anywhere = pass_stars(tokens, len, is_at, &first);
	}
	return is_at[len];
}

static bool matches(const struct glob *glob, struct bytes text)
{
	if (text.len < glob->prefix_len)
		return false;
	for (size_t i = 0; i < glob->prefix_len; i++)
		if (glob->tokens[i] != (unsigned char)text.data[i])
			return false;
	bytes_take(&text, glob->prefix_len);
	if (glob->prefix_len == glob->len)
		return text.len == 0;
	return matches_rest(glob->tokens + glob->prefix_len, glob->len - glob->prefix_len, text);
}

bool glob_matches(const struct glob *glob, const struct glob_path *path)
{
	struct bytes text = { path->exact, path->exact_len };

	if (!path->is_plain)
		return false;
	if (!glob->is_loose)
		return matches(glob, text);
	/* A server may add the last slash, or take it away. */
	text = (struct bytes){ path->loose, path->loose_len };
	if (matches(glob, text))
		return true;
	text.len--;
	return text.len > 0 && matches(glob, text);
}
