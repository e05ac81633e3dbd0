/* SPDX-License-Identifier: MIT */
/* Numbers with units: accepted whole, or refused. */
#include "unit.h"

#include "base/units.h"

struct row {
	int (*parse)(const char *, uint64_t *);
	const char *text;
	int result;
	uint64_t value;
};

static const struct row rows[] = {
	{ units_parse_count, "0", 0, 0 },
	{ units_parse_count, "42", 0, 42 },
	{ units_parse_count, "18446744073709551", 0, 18446744073709551U },
	{ units_parse_count, "99999999999999999999", -ERANGE, 0 },
	{ units_parse_count, "", -EINVAL, 0 },
	{ units_parse_count, "-1", -EINVAL, 0 },
	{ units_parse_count, "+1", -EINVAL, 0 },
	{ units_parse_count, " 1", -EINVAL, 0 },
	{ units_parse_count, "1 ", -EINVAL, 0 },
	{ units_parse_count, "1.5", -EINVAL, 0 },
	{ units_parse_count, "1e3", -EINVAL, 0 },
	{ units_parse_count, "0x10", -EINVAL, 0 },
	{ units_parse_size, "1", 0, 1 },
	{ units_parse_size, "64K", 0, 65536 },
	{ units_parse_size, "1.5G", 0, 1610612736 },
	{ units_parse_size, "0.001K", 0, 1 },
	{ units_parse_size, "2T", 0, UINT64_C(2) << 40 },
	{ units_parse_size, "2m", -EINVAL, 0 },
	{ units_parse_size, "1KB", -EINVAL, 0 },
	{ units_parse_size, "1.5", -EINVAL, 0 },
	{ units_parse_size, "99999999999T", -ERANGE, 0 },
	{ units_parse_size, "1.", -EINVAL, 0 },
	{ units_parse_size, ".5K", -EINVAL, 0 },
	{ units_parse_size, "1.2.3K", -EINVAL, 0 },
	{ units_parse_size, "1.2345K", -EINVAL, 0 },
	{ units_parse_duration, "3", 0, 3000 },
	{ units_parse_duration, "250ms", 0, 250 },
	{ units_parse_duration, "1.5s", 0, 1500 },
	{ units_parse_duration, "10m", 0, 600000 },
	{ units_parse_duration, "2h", 0, 7200000 },
	{ units_parse_duration, "1d", 0, 86400000 },
	{ units_parse_duration, "0.5ms", -EINVAL, 0 },
	{ units_parse_duration, "1w", -EINVAL, 0 },
	{ units_parse_milli, "1.5", 0, 1500 },
	{ units_parse_milli, "2", 0, 2000 },
	{ units_parse_milli, "0.001", 0, 1 },
	{ units_parse_milli, "1.5x", -EINVAL, 0 },
	{ units_parse_rate, "10", 0, 36000000 },
	{ units_parse_rate, "0.5/s", 0, 1800000 },
	{ units_parse_rate, "30/m", 0, 1800000 },
	{ units_parse_rate, "1/m", 0, 60000 },
	{ units_parse_rate, "0.001/m", 0, 60 },
	{ units_parse_rate, "100/h", 0, 100000 },
	{ units_parse_rate, "0.001/h", 0, 1 },
	{ units_parse_rate, "0.0001/h", -EINVAL, 0 },
	{ units_parse_rate, "30/", -EINVAL, 0 },
	{ units_parse_rate, "30/d", -EINVAL, 0 },
	{ units_parse_rate, "30m", -EINVAL, 0 },
	{ units_parse_rate, "/m", -EINVAL, 0 },
	{ units_parse_rate, "-1/m", -EINVAL, 0 },
	{ units_parse_rate, "99999999999999999999/m", -ERANGE, 0 },
	{ units_parse_rate, "9999999999999999", -ERANGE, 0 },
};

static void each_row(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t value = 0;
		int r = rows[i].parse(rows[i].text, &value);

		if (r != rows[i].result || value != rows[i].value)
			fail_msg("'%s' gave %d and %lu", rows[i].text, r, (unsigned long)value);
	}
}

int main(void)
{
	RUN_TESTS(TEST(each_row));
}
