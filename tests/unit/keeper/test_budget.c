/* SPDX-License-Identifier: MIT */
/* Budgets: what is taken is never more than there is. */
#include "unit.h"

#include <stdio.h>

#include "keeper/budget.h"

static void without_limits_everything_may_leave(void **state)
{
	struct budget budget;
	struct budget_host *host;

	(void)state;
	budget_init(&budget, 0, 0);
	host = budget_find(&budget, "a.test");
	assert_ptr_equal(budget_find(&budget, "b.test"), host); /* nothing has to be kept apart */
	assert_true(budget_take(&budget, host, UINT64_MAX));
	assert_true(budget_take(&budget, host, UINT64_MAX));
	assert_int_equal(budget.used, UINT64_MAX);
	/* What was only announced is given back, all of it. */
	budget_give_back(&budget, host, UINT64_MAX);
	budget_give_back(&budget, host, UINT64_MAX);
	assert_int_equal(budget.used, 0);
	budget_fini(&budget);
}

static void the_run_has_a_limit(void **state)
{
	struct budget budget;
	struct budget_host *host;

	(void)state;
	budget_init(&budget, 100, 0);
	host = budget_find(&budget, "a.test");
	assert_true(budget_take(&budget, host, 60));
	assert_false(budget_take(&budget, host, 41));
	assert_false(budget_take(&budget, host, UINT64_MAX));
	assert_int_equal(budget.used, 60); /* a refusal takes nothing */
	assert_true(budget_take(&budget, budget_find(&budget, "b.test"), 40));
	assert_true(budget_take(&budget, host, 0));
	assert_false(budget_take(&budget, host, 1));
	budget_give_back(&budget, host, 10);
	assert_true(budget_take(&budget, host, 10));
	budget_fini(&budget);
}

static void each_host_has_a_limit(void **state)
{
	struct budget budget;
	struct budget_host *a, *b;

	(void)state;
	budget_init(&budget, 100, 60);
	a = budget_find(&budget, "a.test");
	b = budget_find(&budget, "b.test");
	assert_ptr_not_equal(a, b);
	assert_ptr_equal(budget_find(&budget, "a.test"), a);
	assert_false(budget_take(&budget, a, 61));
	assert_true(budget_take(&budget, a, 60));
	assert_false(budget_take(&budget, a, 1));
	assert_false(budget_take(&budget, b, 41)); /* the run's */
	assert_int_equal(b->used, 0);
	assert_true(budget_take(&budget, b, 40));
	budget_give_back(&budget, a, 60);
	assert_true(budget_take(&budget, b, 20));
	assert_false(budget_take(&budget, b, 1));
	budget_fini(&budget);
}

/* Names cost nothing: more of them must not mean more bytes. */
static void many_hosts_share_one_account(void **state)
{
	struct budget budget;
	struct budget_host *first = NULL, *host;
	uint64_t taken = 0;

	(void)state;
	budget_init(&budget, 0, 10);
	for (int i = 0; i < BUDGET_HOSTS_MAX + 100; i++) {
		char name[32];

		snprintf(name, sizeof(name), "h%d.test", i);
		host = budget_find(&budget, name);
		first = first ? first : host;
		taken += budget_take(&budget, host, 10) ? 10 : 0;
	}
	assert_int_equal(taken, (BUDGET_HOSTS_MAX + 1) * 10);
	assert_ptr_equal(budget_find(&budget, "h0.test"), first); /* it has not moved */
	assert_ptr_equal(budget_find(&budget, "late.test"), &budget.others);
	budget_fini(&budget);
}

int main(void)
{
	RUN_TESTS(TEST(without_limits_everything_may_leave), TEST(the_run_has_a_limit),
		  TEST(each_host_has_a_limit), TEST(many_hosts_share_one_account));
}
