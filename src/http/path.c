/* SPDX-License-Identifier: MIT */
/* The plainness of paths. */
#include "http/path.h"

struct bytes http_path_split(struct bytes target, struct bytes *ret_query)
{
	struct bytes path;

	*ret_query = target;
	if (bytes_split(ret_query, '?', &path))
		return path;
	*ret_query = (struct bytes){ NULL, 0 };
	return target;
}

/* Whether %XX, two digits in either case, stands at the front. */
static bool is_escape_of(struct bytes text, const char *digits)
{
	return bytes_has_prefix_nocase(text, (struct bytes){ digits, 2 });
}

/* Takes one character that may be an encoded dot; false for what makes a path ambiguous. */
static bool take_char(struct bytes *text, bool *ret_is_dot)
{
	static const char *const ambiguous[] = { "2f", "5c", "25", "00" };
	char c = bytes_take(text, 1).data[0];

	*ret_is_dot = c == '.';
	if (c == '\\')
		return false;
	if (c != '%')
		return true;
	for (size_t i = 0; i < sizeof(ambiguous) / sizeof(ambiguous[0]); i++)
		if (is_escape_of(*text, ambiguous[i]))
			return false;
	*ret_is_dot = is_escape_of(*text, "2e");
	if (*ret_is_dot)
		bytes_take(text, 2);
	return true;
}

/* A segment is plain unless it is empty, or one or two dots before its end or a parameter. */
static bool is_plain_segment(struct bytes segment)
{
	size_t dots = 0;
	bool is_dot = true;

	while (segment.len > 0 && segment.data[0] != ';') {
		if (!take_char(&segment, &is_dot))
			return false;
		if (!is_dot)
			break;
		dots++;
	}
	if (is_dot && dots <= 2)
		return false;
	while (segment.len > 0)
		if (!take_char(&segment, &is_dot))
			return false;
	return true;
}

bool http_path_is_plain(struct bytes path)
{
	struct bytes segment;

	if (path.len == 0 || path.data[0] != '/')
		return false;
	bytes_take(&path, 1);
	while (bytes_split(&path, '/', &segment))
		if (!is_plain_segment(segment))
			return false;
	return path.len == 0 || is_plain_segment(path); /* "/" at the end is fine */
}
