/* SPDX-License-Identifier: MIT */
/* Moments, from and to text. */
#include "unit.h"

#include "base/timestamp.h"

static void what_is_a_moment(void **state)
{
	static const struct {
		const char *text;
		uint64_t ms;
	} rows[] = {
		{ "1970-01-01", 0 },
		{ "1970-01-01T00:00:00.001Z", 1 },
		{ "2026-11-15", 1794700800000 },
		{ "2026-11-15T14:50:42Z", 1794754242000 },
		{ "2026-11-15 14:50:42.144831+00:00", 1794754242144 },
		{ "2026-11-15t14:50:42.1z", 1794754242100 },
		{ "2026-11-15T14:50:42.123456789", 1794754242123 },
		{ "2026-11-15T15:50:42+01:00", 1794754242000 },
		{ "2026-11-15T15:50:42+0100", 1794754242000 },
		{ "2026-11-15T09:20:42-05:30", 1794754242000 },
		{ "2024-02-29T23:59:60Z", 1709251200000 },
		{ "9999-12-31T23:59:59.999Z", 253402300799999 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t ms = 1;

		assert_int_equal(timestamp_parse(bytes_of(rows[i].text), &ms), 0);
		assert_int_equal(ms, rows[i].ms);
	}
}

static void what_is_none(void **state)
{
	static const char *const rows[] = {
		"",
		"now",
		"1h",
		"2026",
		"2026-11",
		"2026-13-01",
		"2026-00-01",
		"2026-02-29",
		"2026-04-31T01:00:00Z",
		"1969-12-31",
		"1970-01-01T00:00:00+01:00",
		"2026-11-15T",
		"2026-11-15T14",
		"2026-11-15T14:50",
		"2026-11-15T24:00:00Z",
		"2026-11-15T14:60:00Z",
		"2026-11-15T14:50:42.Z",
		"2026-11-15T14:50:42ZZ",
		"2026-11-15T14:50:42+1",
		"2026-11-15T14:50:42+24:00",
		" 2026-11-15",
		"2026-11-15x14:50:42Z",
		"-026-11-15",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t ms = 7;

		assert_int_equal(timestamp_parse(bytes_of(rows[i]), &ms), -EINVAL);
		assert_int_equal(ms, 7);
	}
}

static void it_is_written_as_it_is_read(void **state)
{
	char text[TIMESTAMP_TEXT_MAX];
	uint64_t ms;

	(void)state;
	timestamp_format(1794754242144, text);
	assert_string_equal(text, "2026-11-15T14:50:42.144Z");
	for (uint64_t given = 0; given < 253402300799999; given = given * 3 + 7) {
		timestamp_format(given, text);
		assert_int_equal(timestamp_parse(bytes_of(text), &ms), 0);
		assert_int_equal(ms, given);
	}
}

int main(void)
{
	RUN_TESTS(TEST(what_is_a_moment), TEST(what_is_none), TEST(it_is_written_as_it_is_read));
}
