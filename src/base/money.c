/* SPDX-License-Identifier: MIT */
/* Amounts of money, from and to text. */
#include "base/money.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#define PLACES       9 /* of a billionth */
#define EXPONENT_MAX 1000000

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static struct bytes take_digits(struct bytes *text)
{
	size_t len = 0;

	while (len < text->len && is_digit(text->data[len]))
		len++;
	return bytes_take(text, len);
}

/* Takes off what comes after the 'e'; what is absurd stays absurd without overflowing. */
static int take_exponent(struct bytes *text, int64_t *ret_exponent)
{
	bool is_negative = text->len > 0 && text->data[0] == '-';
	struct bytes digits;
	int64_t value = 0;

	if (text->len > 0 && (text->data[0] == '-' || text->data[0] == '+'))
		bytes_take(text, 1);
	digits = take_digits(text);
	if (digits.len == 0)
		return -EINVAL;
	for (size_t i = 0; i < digits.len; i++)
		if (value < EXPONENT_MAX)
			value = value * 10 + (digits.data[i] - '0');
	*ret_exponent = is_negative ? -value : value;
	return 0;
}

struct number {
	uint64_t amount;
	int64_t power;   /* of ten, in billionths, that the next digit is worth */
	bool is_between; /* there is something finer than a billionth */
};

static int push_digit(struct number *number, unsigned int digit)
{
	if (number->power-- < 0) {
		number->is_between |= digit > 0;
		return 0;
	}
	number->amount = number->amount * 10 + digit;
	return number->amount > MONEY_MAX ? -ERANGE : 0;
}

static int push_digits(struct number *number, struct bytes digits)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < digits.len; i++)
		r = push_digit(number, (unsigned int)(digits.data[i] - '0'));
	return r;
}

int money_parse(struct bytes text, uint64_t *ret_amount)
{
	struct bytes whole = take_digits(&text), part = { 0 };
	struct number number = { 0 };
	int64_t exponent = 0;
	int r = 0;

	if (whole.len == 0)
		return -EINVAL;
	if (text.len > 0 && text.data[0] == '.') {
		bytes_take(&text, 1);
		part = take_digits(&text);
		if (part.len == 0)
			return -EINVAL;
	}
	if (text.len > 0 && (text.data[0] == 'e' || text.data[0] == 'E')) {
		bytes_take(&text, 1);
		r = take_exponent(&text, &exponent);
	}
	if (r < 0 || text.len > 0)
		return -EINVAL;
	number.power = (int64_t)whole.len - 1 + exponent + PLACES;
	r = push_digits(&number, whole);
	if (r == 0)
		r = push_digits(&number, part);
	/* The zeros that the exponent stands for; more than a few are too many. */
	while (r == 0 && number.amount > 0 && number.power >= 0)
		r = push_digit(&number, 0);
	if (r < 0)
		return r;
	number.amount += number.is_between;
	if (number.amount > MONEY_MAX)
		return -ERANGE;
	*ret_amount = number.amount;
	return 0;
}

void money_format(uint64_t amount, char ret_text[MONEY_TEXT_MAX])
{
	int len = snprintf(ret_text, MONEY_TEXT_MAX, "%" PRIu64 ".%09" PRIu64, amount / MONEY_UNIT,
			   amount % MONEY_UNIT);

	while (ret_text[len - 1] == '0')
		len--;
	len -= ret_text[len - 1] == '.';
	ret_text[len] = '\0';
}
