/* SPDX-License-Identifier: MIT */
/* Synthetic addresses: one per name, and never two names behind one. */
#include <arpa/inet.h>
#include <stdio.h>

#include "unit.h"

#include "gate/names.h"

static struct names *names;

static int set_up(void **state)
{
	(void)state;
	names = names_new();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	names_free(names);
	return 0;
}

static struct sockaddr_in v4_of(const char *name)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	struct in6_addr v6;

	names_address(names, name, &address.sin_addr, &v6);
	return address;
}

static struct sockaddr_in6 v6_of(const char *name)
{
	struct sockaddr_in6 address = { .sin6_family = AF_INET6 };
	struct in_addr v4;

	names_address(names, name, &v4, &address.sin6_addr);
	return address;
}

static const char *behind_v4(const struct sockaddr_in *address)
{
	return names_of_address(names, (const struct sockaddr *)address);
}

static const char *behind_v6(const struct sockaddr_in6 *address)
{
	return names_of_address(names, (const struct sockaddr *)address);
}

static const char *behind(const char *text)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };

	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
		return behind_v4(&v4);
	assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
	return behind_v6(&v6);
}

static const char *numbered(unsigned int i)
{
	static char name[32];

	snprintf(name, sizeof(name), "host%u.example", i);
	return name;
}

static void addresses_begin_where_they_should(void **state)
{
	struct sockaddr_in v4 = v4_of("a.example");
	struct sockaddr_in6 v6 = v6_of("b.example");
	char text[INET6_ADDRSTRLEN];

	(void)state;
	assert_string_equal(inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text)), "198.18.0.2");
	assert_string_equal(inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text)),
			    "fd77:6172:6465:7200::3");
}

static void a_name_keeps_its_addresses(void **state)
{
	struct sockaddr_in first = v4_of("a.example"), other = v4_of("b.example");

	(void)state;
	assert_int_equal(v4_of("a.example").sin_addr.s_addr, first.sin_addr.s_addr);
	assert_int_not_equal(first.sin_addr.s_addr, other.sin_addr.s_addr);
	assert_string_equal(behind_v4(&first), "a.example");
	assert_string_equal(behind_v4(&other), "b.example");
	assert_string_equal(behind("fd77:6172:6465:7200::2"), "a.example");
	assert_string_equal(behind("::ffff:198.18.0.2"), "a.example");
}

static void what_was_not_given_out_has_no_name(void **state)
{
	static const char *const addresses[] = {
		"198.18.0.0",
		"198.18.0.1",
		"198.18.0.3",
		"198.18.32.2", /* the same place, another round */
		"198.17.255.255",
		"198.19.255.255",
		"198.20.0.2",
		"127.0.0.1",
		"0.0.0.2",
		"::2",
		"fd77:6172:6465:7200::",
		"fd77:6172:6465:7200::1",
		"fd77:6172:6465:7201::2",
		"fd77:6172:6465:7200:0:1:0:2",
		"fd77:6172:6465:7200::ffff:ffff",
		"fd77:6172:6465:7200::1:0:2",
		"::ffff:198.18.0.3",
		"::198.18.0.2",
	};
	struct sockaddr other = { .sa_family = AF_UNIX };

	(void)state;
	v4_of("a.example");
	for (size_t i = 0; i < ARRAY_LEN(addresses); i++)
		if (behind(addresses[i]))
			fail_msg("%s: %s", addresses[i], behind(addresses[i]));
	assert_null(names_of_address(names, &other));
}

static void a_full_table_gives_up_the_oldest(void **state)
{
	struct sockaddr_in first, second, third;

	(void)state;
	for (unsigned int i = 0; i < NAMES_MAX; i++)
		v4_of(numbered(i));
	first = v4_of(numbered(0)); /* asked for, so it is not the oldest any more */
	second = (struct sockaddr_in){ .sin_family = AF_INET };
	inet_pton(AF_INET, "198.18.0.3", &second.sin_addr);
	third = (struct sockaddr_in){ .sin_family = AF_INET };
	inet_pton(AF_INET, "198.18.0.4", &third.sin_addr);
	assert_string_equal(behind_v4(&second), "host1.example"); /* connected to */
	v4_of("new.example");
	assert_null(behind_v4(&third));
	assert_string_equal(behind_v4(&first), "host0.example");
	assert_string_equal(behind_v4(&second), "host1.example");
	/* The one that is gone gets a new address, and takes the next oldest one's place. */
	assert_int_not_equal(v4_of("host2.example").sin_addr.s_addr, third.sin_addr.s_addr);
	assert_null(behind("198.18.0.5"));
}

/* After as many names as the range has addresses, each has its own, and all else is nobody's. */
static void no_address_leads_to_another_name(void **state)
{
	const unsigned int total = NAMES_MAX * (NAMES_ROUNDS + 2) + 100;
	unsigned int known = 0;

	(void)state;
	for (unsigned int i = 0; i < total; i++) {
		struct sockaddr_in v4 = v4_of(numbered(i));
		struct sockaddr_in6 v6 = v6_of(numbered(i));

		assert_string_equal(behind_v4(&v4), numbered(i));
		assert_string_equal(behind_v6(&v6), numbered(i));
		assert_true(ntohl(v4.sin_addr.s_addr) > 0xc6120001 &&
			    ntohl(v4.sin_addr.s_addr) < 0xc613ffff);
	}
	for (uint32_t i = 0; i < 0x20000; i++) {
		struct sockaddr_in v4 = { .sin_family = AF_INET };
		const char *name;

		v4.sin_addr.s_addr = htonl(0xc6120000 + i);
		name = behind_v4(&v4);
		known += name != NULL;
		if (name)
			assert_int_equal(v4_of(name).sin_addr.s_addr, v4.sin_addr.s_addr);
	}
	assert_int_equal(known, NAMES_MAX);
}

static void the_longest_name_fits(void **state)
{
	char name[NAMES_NAME_MAX + 1];
	struct sockaddr_in address;

	(void)state;
	memset(name, 'a', NAMES_NAME_MAX);
	name[NAMES_NAME_MAX] = '\0';
	address = v4_of(name);
	v4_of("b");
	assert_string_equal(behind_v4(&address), name);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	RUN_TESTS(CASE(addresses_begin_where_they_should), CASE(a_name_keeps_its_addresses),
		  CASE(what_was_not_given_out_has_no_name), CASE(a_full_table_gives_up_the_oldest),
		  CASE(no_address_leads_to_another_name), CASE(the_longest_name_fits));
}
