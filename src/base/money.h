/* SPDX-License-Identifier: MIT */
/*
 * Amounts of money, in billionths of the unit that the upstream counts in. Whole numbers, so
 * that what is reserved and what is given back add up.
 */
#ifndef BASE_MONEY_H
#define BASE_MONEY_H

#include <stdint.h>

#include "base/attr.h"
#include "base/bytes.h"

#define MONEY_UNIT     UINT64_C(1000000000)
#define MONEY_MAX      (UINT64_C(1000000000) * MONEY_UNIT)
#define MONEY_TEXT_MAX 24

/*
 * Reads "12", "0.05" or "1.5e-05", as programs print such numbers; what is finer than a
 * billionth is rounded up, since it was spent. 0, -EINVAL or -ERANGE.
 */
int money_parse(struct bytes text, uint64_t *ret_amount) must_check;

/* Without an exponent, and without zeros at the end: "0.05". */
void money_format(uint64_t amount, char ret_text[MONEY_TEXT_MAX]);

#endif
