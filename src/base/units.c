/* SPDX-License-Identifier: MIT */
/* A decimal number with up to three places, times what its unit is worth. */
#include "base/units.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define MILLI 1000

struct unit {
	const char *name;
	uint64_t worth;
};

static const struct unit count_units[] = { { "", 1 }, { NULL, 0 } };

static const struct unit size_units[] = {
	{ "", 1 },
	{ "K", UINT64_C(1) << 10 },
	{ "M", UINT64_C(1) << 20 },
	{ "G", UINT64_C(1) << 30 },
	{ "T", UINT64_C(1) << 40 },
	{ NULL, 0 },
};

static const struct unit duration_units[] = {
	{ "", 1000 },     { "ms", 1 },       { "s", 1000 }, { "m", 60000 },
	{ "h", 3600000 }, { "d", 86400000 }, { NULL, 0 },
};

static const struct unit milli_units[] = { { "", MILLI }, { NULL, 0 } };

/* Of thousandths an hour. */
static const struct unit rate_units[] = {
	{ "", 3600 }, { "/s", 3600 }, { "/m", 60 }, { "/h", 1 }, { NULL, 0 },
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads "12" or "1.5" as thousandths. */
static int parse_decimal(const char **text, uint64_t *ret_milli)
{
	const char *p = *text;
	uint64_t value = 0;
	int places = -1; /* before the point */

	if (!is_digit(*p))
		return -EINVAL;
	for (; is_digit(*p) || (*p == '.' && places < 0); p++) {
		if (*p == '.') {
			if (!is_digit(p[1]))
				return -EINVAL;
			places = 0;
			continue;
		}
		if (places >= 0 && ++places > 3)
			return -EINVAL;
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
			return -ERANGE;
	}
	for (places = places < 0 ? 0 : places; places < 3; places++)
		if (__builtin_mul_overflow(value, 10, &value))
			return -ERANGE;
	*text = p;
	*ret_milli = value;
	return 0;
}

static int parse(const char *text, const struct unit *units, uint64_t *ret_value)
{
	uint64_t milli, worth, value;
	int r = parse_decimal(&text, &milli);

	if (r < 0)
		return r;
	while (units->name && strcmp(units->name, text) != 0)
		units++;
	if (!units->name)
		return -EINVAL;
	worth = units->worth;
	if (milli % MILLI == 0) {
		if (__builtin_mul_overflow(milli / MILLI, worth, &value))
			return -ERANGE;
	} else {
		if (worth == 1)
			return -EINVAL; /* half a byte, half a process */
		if (__builtin_mul_overflow(milli, worth, &value))
			return -ERANGE;
		value /= MILLI;
	}
	*ret_value = value;
	return 0;
}

int units_parse_count(const char *text, uint64_t *ret_count)
{
	return parse(text, count_units, ret_count);
}

int units_parse_size(const char *text, uint64_t *ret_bytes)
{
	return parse(text, size_units, ret_bytes);
}

int units_parse_duration(const char *text, uint64_t *ret_ms)
{
	return parse(text, duration_units, ret_ms);
}

int units_parse_milli(const char *text, uint64_t *ret_milli)
{
	return parse(text, milli_units, ret_milli);
}

int units_parse_rate(const char *text, uint64_t *ret_rate)
{
	const struct unit *unit = rate_units;
	uint64_t milli, rate;
	int r = parse_decimal(&text, &milli);

	if (r < 0)
		return r;
	while (unit->name && strcmp(unit->name, text) != 0)
		unit++;
	if (!unit->name)
		return -EINVAL;
	if (__builtin_mul_overflow(milli, unit->worth, &rate))
		return -ERANGE;
	*ret_rate = rate;
	return 0;
}
