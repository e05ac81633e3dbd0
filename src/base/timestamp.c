/* SPDX-License-Identifier: MIT */
/* Reading and writing of RFC 3339. */
#include "base/timestamp.h"

#include <errno.h>
#include <stdbool.h>
#include <time.h>

static bool take_char(struct bytes *text, const char *any_of)
{
	if (text->len == 0 || !text->data[0] || !strchr(any_of, text->data[0]))
		return false;
	bytes_take(text, 1);
	return true;
}

/* A number of exactly so many digits. */
static bool take_number(struct bytes *text, size_t digits, int low, int high, int *ret_number)
{
	int number = 0;

	if (text->len < digits)
		return false;
	for (size_t i = 0; i < digits; i++) {
		char c = bytes_take(text, 1).data[0];

		if (c < '0' || c > '9')
			return false;
		number = number * 10 + (c - '0');
	}
	*ret_number = number;
	return number >= low && number <= high;
}

/* ".144831" is 144 milliseconds. */
static bool take_fraction(struct bytes *text, int *ret_ms)
{
	int ms = 0, weight = 100;
	size_t digits = 0;

	while (text->len > 0 && text->data[0] >= '0' && text->data[0] <= '9') {
		ms += (bytes_take(text, 1).data[0] - '0') * weight;
		weight /= 10;
		digits++;
	}
	*ret_ms = ms;
	return digits > 0;
}

/* "Z", "+01:00" or nothing; how much later than UTC it is there. */
static bool take_zone(struct bytes *text, int *ret_minutes)
{
	int hours, minutes, sign;

	*ret_minutes = 0;
	if (text->len == 0 || take_char(text, "Zz"))
		return true;
	sign = text->data[0] == '-' ? -1 : 1;
	if (!take_char(text, "+-") || !take_number(text, 2, 0, 23, &hours))
		return false;
	take_char(text, ":");
	if (!take_number(text, 2, 0, 59, &minutes))
		return false;
	*ret_minutes = sign * (hours * 60 + minutes);
	return true;
}

static bool take_date(struct bytes *text, struct tm *tm)
{
	if (!take_number(text, 4, 1970, 9999, &tm->tm_year) || !take_char(text, "-") ||
	    !take_number(text, 2, 1, 12, &tm->tm_mon) || !take_char(text, "-") ||
	    !take_number(text, 2, 1, 31, &tm->tm_mday))
		return false;
	tm->tm_year -= 1900;
	tm->tm_mon--;
	return true;
}

static bool take_time(struct bytes *text, struct tm *tm, int *ret_ms)
{
	return take_char(text, "Tt ") && take_number(text, 2, 0, 23, &tm->tm_hour) &&
	       take_char(text, ":") && take_number(text, 2, 0, 59, &tm->tm_min) &&
	       take_char(text, ":") && take_number(text, 2, 0, 60, &tm->tm_sec) &&
	       (!take_char(text, ".") || take_fraction(text, ret_ms));
}

/* timegm would make the 31st of a shorter month the 1st of the next. */
static bool is_in_month(const struct tm *tm)
{
	struct tm noon = {
		.tm_year = tm->tm_year, .tm_mon = tm->tm_mon, .tm_mday = tm->tm_mday, .tm_hour = 12
	};

	timegm(&noon);
	return noon.tm_mon == tm->tm_mon;
}

int timestamp_parse(struct bytes text, uint64_t *ret_ms)
{
	struct tm tm = { .tm_year = 0 };
	int ms = 0, minutes = 0;
	int64_t seconds;

	if (!take_date(&text, &tm))
		return -EINVAL;
	if (text.len > 0 && (!take_time(&text, &tm, &ms) || !take_zone(&text, &minutes)))
		return -EINVAL;
	if (text.len > 0 || !is_in_month(&tm))
		return -EINVAL;
	seconds = timegm(&tm) - (int64_t)minutes * 60;
	if (seconds < 0)
		return -EINVAL;
	*ret_ms = (uint64_t)seconds * 1000 + (uint64_t)ms;
	return 0;
}

void timestamp_format(uint64_t ms, char ret_text[TIMESTAMP_TEXT_MAX])
{
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm;
	size_t len;

	gmtime_r(&seconds, &tm);
	len = strftime(ret_text, TIMESTAMP_TEXT_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(ret_text + len, TIMESTAMP_TEXT_MAX - len, ".%03uZ", (unsigned int)(ms % 1000));
}
