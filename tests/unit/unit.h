/* SPDX-License-Identifier: MIT */
/* cmocka with the headers it wants before it. */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/attr.h"

#define TEST(name) cmocka_unit_test(name)
#define RUN_TESTS(...)                                                                             \
	const struct CMUnitTest tests[] = { __VA_ARGS__ };                                         \
	return cmocka_run_group_tests(tests, NULL, NULL)

#endif
