/* SPDX-License-Identifier: MIT */
/* Money: whole billionths, from and to what programs print. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/money.h"

static void what_programs_print_is_read(void **state)
{
	static const struct {
		const char *text;
		uint64_t amount;
	} rows[] = {
		{ "0", 0 },
		{ "0.0", 0 },
		{ "00", 0 },
		{ "1", MONEY_UNIT },
		{ "12", 12 * MONEY_UNIT },
		{ "12.0", 12 * MONEY_UNIT },
		{ "007.5", 7 * MONEY_UNIT + MONEY_UNIT / 2 },
		{ "0.05", MONEY_UNIT / 20 },
		{ "0.000000001", 1 },
		{ "0.123456789", 123456789 },
		{ "1.5e-05", 15000 },
		{ "1e-05", 10000 },
		{ "2.5E-7", 250 },
		{ "1e-9", 1 },
		{ "1e-09", 1 },
		{ "1e0", MONEY_UNIT },
		{ "1e+2", 100 * MONEY_UNIT },
		{ "1.25e2", 125 * MONEY_UNIT },
		{ "1.25e1", 12 * MONEY_UNIT + MONEY_UNIT / 2 },
		{ "123.456e-3", 123456000 },
		{ "1000000000", MONEY_MAX },
		{ "1e9", MONEY_MAX },
		{ "1e+09", MONEY_MAX },
		{ "0.001e12", MONEY_MAX },
		{ "0e99999999999999999999", 0 },
		{ "0.00e-99999999999999999999", 0 },
		/* Finer than a billionth: up, since it was spent. */
		{ "1e-10", 1 },
		{ "0.0000000001", 1 },
		{ "0.0000000010000000000000001", 2 },
		{ "0.0000000010000000000000000", 1 },
		{ "1.0000000001", MONEY_UNIT + 1 },
		{ "9.99e-8", 100 },
		{ "3.3000000000000003e-05", 33001 },
		{ "0.00031249999999999995", 312500 },
		{ "7.000000000000001e-06", 7001 },
		{ "123e-1000000", 1 },
		{ "1e-99999999999999999999", 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t amount = 12345;
		int r = money_parse(bytes_of(rows[i].text), &amount);

		if (r != 0 || amount != rows[i].amount)
			print_error("%s: %d, %ju\n", rows[i].text, r, (uintmax_t)amount);
		assert_int_equal(r, 0);
		assert_int_equal(amount, rows[i].amount);
	}
}

static void what_is_no_amount_is_refused(void **state)
{
	static const char *const rows[] = {
		"",      ".",     ".5",   "5.",  "-1",    "-0.0", "+1",  " 1",    "1 ",
		"1,5",   "1.2.3", "1e",   "1e+", "1e-",   "e5",   "nan", "inf",   "NaN",
		"0x10",  "1e5.0", "1e 5", "1_0", "1e--",  "null", "$1",  "1.e5",  "1f",
		"\"1\"", "1\n",   "--1",  "1-",  "1e5e5", "1.5e", "1..", "1.0.0",
	};
	uint64_t amount = 77;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(money_parse(bytes_of(rows[i]), &amount), -EINVAL);
	assert_int_equal(money_parse((struct bytes){ "1\0", 2 }, &amount), -EINVAL);
	assert_int_equal(money_parse((struct bytes){ "1.5", 2 }, &amount), -EINVAL); /* "1." */
	assert_int_equal(amount, 77);
}

static void what_is_too_much_is_refused(void **state)
{
	static const char *const rows[] = {
		"1000000000.000000001",
		"1000000001",
		"1e10",
		"1e+300",
		"1e99999999999999999999",
		"1000000000.0000000000001",
		"18446744073.709551616",
		"999999999.9999999999e1",
		"99999999999999999999999999999999999999",
		"0.1e11",
	};
	uint64_t amount = 77;
	char many[4001];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(money_parse(bytes_of(rows[i]), &amount), -ERANGE);
	assert_int_equal(amount, 77);
	/* Many digits are no trouble, whatever they say. */
	memset(many, '0', 4000);
	many[4000] = '\0';
	many[1] = '.';
	many[3999] = '7';
	assert_int_equal(money_parse(bytes_of(many), &amount), 0);
	assert_int_equal(amount, 1);
	memset(many, '9', 4000);
	assert_int_equal(money_parse(bytes_of(many), &amount), -ERANGE);
}

static void amounts_are_written_short(void **state)
{
	static const struct {
		uint64_t amount;
		const char *text;
	} rows[] = {
		{ 0, "0" },
		{ 1, "0.000000001" },
		{ MONEY_UNIT / 20, "0.05" },
		{ MONEY_UNIT, "1" },
		{ 10 * MONEY_UNIT, "10" },
		{ 10 * MONEY_UNIT + 10, "10.00000001" },
		{ MONEY_MAX, "1000000000" },
		{ MONEY_MAX - 1, "999999999.999999999" },
		{ UINT64_MAX, "18446744073.709551615" },
	};
	char text[MONEY_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		money_format(rows[i].amount, text);
		assert_string_equal(text, rows[i].text);
	}
}

static void what_is_written_is_read_again(void **state)
{
	uint64_t amount = 1, again;
	char text[64];

	(void)state;
	for (int i = 0; i < 200000; i++) {
		amount = amount * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		amount %= MONEY_MAX >> (i % 60);
		money_format(amount, text);
		assert_int_equal(money_parse(bytes_of(text), &again), 0);
		assert_int_equal(again, amount);
		/* The same with an exponent. */
		snprintf(text, sizeof(text), "%jue-9", (uintmax_t)amount);
		assert_int_equal(money_parse(bytes_of(text), &again), 0);
		assert_int_equal(again, amount);
	}
}

/* A float that is printed with all its digits is read as no less, and no more than one above. */
static void floats_are_read_as_no_less_than_they_are(void **state)
{
	uint64_t seed = 7, amount;
	char text[64];

	(void)state;
	for (int i = 0; i < 100000; i++) {
		double value;

		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		value = (double)(seed >> 40) / 1e9 / (1 << i % 20);
		snprintf(text, sizeof(text), "%.17g", value);
		assert_int_equal(money_parse(bytes_of(text), &amount), 0);
		assert_true((double)amount >= value * 1e9 * (1 - 1e-12));
		assert_true((double)amount <= value * 1e9 + 1.000001);
	}
}

int main(void)
{
	RUN_TESTS(TEST(what_programs_print_is_read), TEST(what_is_no_amount_is_refused),
		  TEST(what_is_too_much_is_refused), TEST(amounts_are_written_short),
		  TEST(what_is_written_is_read_again),
		  TEST(floats_are_read_as_no_less_than_they_are));
}
