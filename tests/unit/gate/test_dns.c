/* SPDX-License-Identifier: MIT */
/* The resolver: every kind of question, and everything that is none. */
#include "dns_query.h"

static struct names *names;
static struct dns_policy policy;
static struct dns_query query;
static char reply[DNS_REPLY_MAX];

static bool is_allowed(void *owner, const char *name)
{
	assert_ptr_equal(owner, &policy);
	return strcmp(name, "api.example.com") == 0 || strcmp(name, "litellm") == 0 ||
	       strcmp(name, "printer.local") == 0 || strcmp(name, "127.1") == 0;
}

static int set_up(void **state)
{
	(void)state;
	names = names_new();
	policy = (struct dns_policy){ .has_v6 = true, .is_allowed = is_allowed, .owner = &policy };
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	names_free(names);
	return 0;
}

/* In a block of its own size, so that reading beyond it is noticed. */
static size_t answer(const char *data, size_t len)
{
	_cleanup_free_ char *copy = malloc(len ? len : 1);

	assert_non_null(copy);
	memcpy(copy, data, len);
	return dns_answer(names, &policy, (struct bytes){ copy, len }, reply);
}

static const char *ask_query(void)
{
	size_t len = answer(query.data, query.len);

	assert_true(len >= 12 && len <= DNS_REPLY_MAX);
	assert_memory_equal(reply, query.data, 2);
	return dns_reply_text(reply, len);
}

static const char *ask(const char *name, unsigned int type)
{
	dns_query_make(&query, 0xbeef, name, type);
	return ask_query();
}

static void names_have_an_address_of_each_family(void **state)
{
	(void)state;
	assert_string_equal(ask("api.example.com", ns_t_a), "NOERROR 198.18.0.2");
	assert_string_equal(ask("api.example.com", ns_t_aaaa), "NOERROR fd77:6172:6465:7200::2");
	assert_string_equal(ask("not-allowed.example.com", ns_t_a), "NOERROR 198.18.0.3");
	assert_string_equal(ask("_under_score.example.com", ns_t_a), "NOERROR 198.18.0.4");
	assert_string_equal(ask("xn--bcher-kva.example", ns_t_a), "NOERROR 198.18.0.5");
	assert_string_equal(ask("api.example.com", ns_t_a), "NOERROR 198.18.0.2");
}

static void without_ipv6_there_is_no_aaaa(void **state)
{
	(void)state;
	policy.has_v6 = false;
	assert_string_equal(ask("api.example.com", ns_t_aaaa), "NOERROR");
	assert_string_equal(ask("localhost", ns_t_aaaa), "NOERROR");
	assert_string_equal(ask("api.example.com", ns_t_a), "NOERROR 198.18.0.2");
}

/* 0x20: the question comes back as it was sent, and means the same. */
static void case_is_kept_and_does_not_matter(void **state)
{
	(void)state;
	assert_string_equal(ask("api.example.com", ns_t_a), "NOERROR 198.18.0.2");
	assert_string_equal(ask("aPi.ExAMPLE.cOm", ns_t_a), "NOERROR 198.18.0.2");
	assert_memory_equal(reply + 12, query.data + 12, query.len - 12);
	assert_string_equal(ask("LOCALHOST", ns_t_a), "NOERROR 127.0.0.1");
}

static void localhost_is_the_agent_s_own(void **state)
{
	(void)state;
	for (policy.mode = DNS_EXPLAIN; policy.mode <= DNS_DENY; policy.mode++) {
		assert_string_equal(ask("localhost", ns_t_a), "NOERROR 127.0.0.1");
		assert_string_equal(ask("a.b.localhost", ns_t_aaaa), "NOERROR ::1");
		assert_string_equal(ask("localhost", ns_t_mx), "NOERROR");
	}
	assert_string_equal(ask("1.0.0.127.in-addr.arpa", ns_t_ptr), "NOERROR localhost");
	policy.mode = DNS_EXPLAIN;
	assert_string_equal(ask("notlocalhost", ns_t_a), "NXDOMAIN");
	assert_string_equal(ask("localhost.example.com", ns_t_a), "NOERROR 198.18.0.2");
}

static void local_names_exist_only_if_allowed(void **state)
{
	static const char *const missing[] = { "wpad", "db", "scanner.local", "local",
					       "a.printer.local" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(missing); i++) {
		assert_string_equal(ask(missing[i], ns_t_a), "NXDOMAIN");
		assert_string_equal(ask(missing[i], ns_t_txt), "NXDOMAIN");
	}
	assert_string_equal(ask("litellm", ns_t_a), "NOERROR 198.18.0.2");
	assert_string_equal(ask("printer.local", ns_t_a), "NOERROR 198.18.0.3");
	assert_string_equal(ask("notlocal.example", ns_t_a), "NOERROR 198.18.0.4");
	policy.is_allowed = NULL;
	assert_string_equal(ask("litellm", ns_t_a), "NXDOMAIN");
}

static void deny_hides_what_is_not_allowed(void **state)
{
	(void)state;
	policy.mode = DNS_DENY;
	assert_string_equal(ask("API.example.com", ns_t_a), "NOERROR 198.18.0.2");
	assert_string_equal(ask("litellm", ns_t_a), "NOERROR 198.18.0.3");
	assert_string_equal(ask("other.example.com", ns_t_a), "NXDOMAIN");
	assert_string_equal(ask("other.example.com", ns_t_txt), "NXDOMAIN");
	policy.is_allowed = NULL;
	assert_string_equal(ask("api.example.com", ns_t_a), "NXDOMAIN");
}

static void some_names_never_exist(void **state)
{
	static const char *const missing[] = {
		"x.invalid",       "a.onion",       "use-application-dns.net",
		"ipv4only.arpa",   "resolver.arpa", "arpa",
		"in-addr.arpa",    "127.1",         "169.254.169.254",
		"a.0x7f",          "0x7f.1",        "2130706433",
		"a b.example",     "a/b.example",   "k\xf6ln.example",
		"host:80.example",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(missing); i++)
		if (strcmp(ask(missing[i], ns_t_a), "NXDOMAIN") != 0)
			fail_msg("%s: %s", missing[i], ask(missing[i], ns_t_a));
	assert_string_equal(ask("4chan.0xyz", ns_t_a),
			    "NOERROR 198.18.0.2"); /* no place was lost */
}

static void other_types_are_empty_at_once(void **state)
{
	static const unsigned int types[] = { ns_t_ns,  ns_t_cname, ns_t_soa, ns_t_mx, ns_t_txt,
					      ns_t_srv, ns_t_naptr, ns_t_ds,  64,      65,
					      ns_t_any, ns_t_axfr,  ns_t_ptr, 0,       65535 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		assert_string_equal(ask("api.example.com", types[i]), "NOERROR");
		assert_string_equal(ask("_http._tcp.example.com", types[i]), "NOERROR");
	}
	/* The root is there, and has nothing. */
	assert_string_equal(ask("", ns_t_ns), "NOERROR");
	assert_string_equal(ask("", ns_t_a), "NOERROR");
	assert_string_equal(ask("first.example.com", ns_t_a), "NOERROR 198.18.0.2");
}

static void addresses_have_their_names(void **state)
{
	(void)state;
	ask("api.example.com", ns_t_a);
	assert_string_equal(ask("2.0.18.198.in-addr.arpa", ns_t_ptr), "NOERROR api.example.com");
	assert_string_equal(ask("2.0.18.198.IN-ADDR.arpa", ns_t_ptr), "NOERROR api.example.com");
	assert_string_equal(ask("2.0.18.198.in-addr.arpa", ns_t_txt), "NOERROR");
	assert_string_equal(ask("2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.2.7.5.6.4.6.2.7.1.6.7.7.D.F."
				"ip6.arpa",
				ns_t_ptr),
			    "NOERROR api.example.com");
	assert_string_equal(ask("1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0."
				"ip6.arpa",
				ns_t_ptr),
			    "NOERROR localhost");
}

static void other_addresses_have_none(void **state)
{
	static const char *const missing[] = {
		"3.0.18.198.in-addr.arpa",
		"1.0.18.198.in-addr.arpa",
		"8.8.8.8.in-addr.arpa",
		"02.0.18.198.in-addr.arpa",
		"0.18.198.in-addr.arpa",
		"2.0.18.454.in-addr.arpa",
		"2.0.2.0.18.198.in-addr.arpa",
		"x.0.18.198.in-addr.arpa",
		"2.0.18.198.in-addr2.arpa",
		"2.0.18.4294967494.in-addr.arpa",
		"2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.2.7.5.6.4.6.2.7.1.6.7.7.d.ip6.arpa",
		"2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.2.7.5.6.4.6.2.7.1.6.7.7.d.f.0.ip6.arpa",
		"02.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.2.7.5.6.4.6.2.7.1.6.7.7.d.f.ip6.arpa",
		"b.a.9.8.7.6.5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa",
	};

	(void)state;
	ask("api.example.com", ns_t_a);
	for (size_t i = 0; i < ARRAY_LEN(missing); i++)
		if (strcmp(ask(missing[i], ns_t_ptr), "NXDOMAIN") != 0)
			fail_msg("%s: %s", missing[i], ask(missing[i], ns_t_ptr));
}

/* Everything at its longest: nothing has to be cut. */
static void the_longest_names_fit(void **state)
{
	char name[300], label[64];

	(void)state;
	memset(label, 'a', 63);
	label[63] = '\0';
	snprintf(name, sizeof(name), "%s.%s.%s.%.61s", label, label, label, label);
	assert_int_equal(strlen(name), NAMES_NAME_MAX);
	assert_string_equal(ask(name, ns_t_aaaa), "NOERROR fd77:6172:6465:7200::2");
	dns_query_make(&query, 1, "2.0.18.198.in-addr.arpa", ns_t_ptr);
	assert_string_equal(strchr(ask_query(), ' ') + 1, name);
	snprintf(name, sizeof(name), "%s.%s.%s.%.62s", label, label, label, label);
	assert_string_equal(ask(name, ns_t_a), "FORMERR");
}

/* ---- EDNS ---- */

static void add_opt(unsigned int version, unsigned int flags, const char *data, size_t len)
{
	dns_query_add(&query, "", 1);
	dns_query_add_u16(&query, ns_t_opt);
	dns_query_add_u16(&query, 4096);
	dns_query_add_u16(&query, version);
	dns_query_add_u16(&query, flags);
	dns_query_add_u16(&query, (unsigned int)len);
	dns_query_add(&query, data, len);
}

static void make_with_opt(unsigned int count)
{
	dns_query_make(&query, 7, "api.example.com", ns_t_a);
	query.data[11] = (char)count;
}

static void opt_is_answered_with_opt(void **state)
{
	static const char opt[] = "\0\0\x29\x04\xd0\0\0\x80\0\0\0";
	static const char cookie[] = "\0\x0a\0\x08"
				     "12345678";
	size_t len;

	(void)state;
	make_with_opt(1);
	add_opt(0, 0x8001, cookie, sizeof(cookie) - 1);
	assert_string_equal(ask_query(), "NOERROR 198.18.0.2");
	len = answer(query.data, query.len);
	assert_memory_equal(reply + len - 11, opt, 11);
	assert_int_equal(reply[11], 1);
	dns_query_make(&query, 7, "api.example.com", ns_t_a);
	ask_query();
	assert_int_equal(reply[11], 0);
}

static void another_version_is_told_which_one_there_is(void **state)
{
	size_t len;

	(void)state;
	make_with_opt(1);
	add_opt(1, 0, NULL, 0);
	assert_string_equal(ask_query(), "NOERROR"); /* and the upper bits of BADVERS: */
	len = answer(query.data, query.len);
	assert_memory_equal(reply + len - 6, "\1\0\0\0\0\0", 6);
}

static void bad_opt_is_refused(void **state)
{
	(void)state;
	make_with_opt(2);
	add_opt(0, 0, NULL, 0);
	add_opt(0, 0, NULL, 0);
	assert_string_equal(ask_query(), "FORMERR");
	make_with_opt(1);
	add_opt(0, 0,
		"\0\x0a\0\x09"
		"12345678",
		12);
	assert_string_equal(ask_query(), "FORMERR");
	make_with_opt(1);
	dns_query_add(&query, "\1a", 2);
	add_opt(0, 0, NULL, 0);
	assert_string_equal(ask_query(), "FORMERR");
}

/* ---- what is no query ---- */

static void what_is_no_query_is_dropped(void **state)
{
	(void)state;
	dns_query_make(&query, 7, "api.example.com", ns_t_a);
	for (size_t len = 0; len < 12; len++)
		assert_int_equal(answer(query.data, len), 0);
	query.data[2] = (char)0x81; /* a reply */
	assert_int_equal(answer(query.data, query.len), 0);
}

static void half_a_query_is_refused(void **state)
{
	(void)state;
	make_with_opt(2);
	dns_query_add(&query, "\1a\xc0\x0c", 4); /* the name of some record, ended by a pointer */
	dns_query_add(&query, "\0\1\0\1\0\0\0\0\0\4abcd", 14);
	add_opt(0, 0, "\0\x0a\0\1x", 5);
	assert_string_equal(ask_query(), "NOERROR 198.18.0.2");
	for (size_t len = 12; len < query.len; len++) {
		size_t reply_len = answer(query.data, len);

		assert_int_equal(reply_len, 12);
		assert_string_equal(dns_reply_text(reply, reply_len), "FORMERR");
	}
	dns_query_add(&query, "x", 1);
	assert_string_equal(ask_query(), "FORMERR");
}

static void other_operations_are_not_known(void **state)
{
	(void)state;
	for (unsigned int opcode = 1; opcode < 16; opcode++) {
		dns_query_make(&query, opcode, "api.example.com", ns_t_a);
		query.data[2] = (char)(opcode << 3);
		assert_string_equal(ask_query(), "NOTIMP");
		assert_int_equal(reply[2] & 0x78, opcode << 3);
	}
}

static void other_classes_are_refused(void **state)
{
	(void)state;
	dns_query_make(&query, 7, "version.bind", ns_t_txt);
	query.data[query.len - 1] = ns_c_chaos;
	assert_string_equal(ask_query(), "REFUSED");
}

static void odd_counts_are_refused(void **state)
{
	(void)state;
	for (size_t i = 4; i < 12; i++) {
		dns_query_make(&query, 7, "api.example.com", ns_t_a);
		query.data[i] = (char)(query.data[i] + 2);
		assert_string_equal(ask_query(), "FORMERR");
	}
	dns_query_header(&query, 7, 0, 0, 0);
	assert_string_equal(ask_query(), "FORMERR");
	dns_query_make(&query, 7, "api.example.com", ns_t_a);
	query.data[5] = 2;
	dns_query_add(&query, "\xc0\x0c\0\1\0\1", 6);
	assert_string_equal(ask_query(), "FORMERR");
}

/* A question whose name is these bytes, in words. */
static const char *ask_raw(struct bytes name)
{
	dns_query_header(&query, 7, 0x0100, 1, 0);
	dns_query_add(&query, name.data, name.len);
	dns_query_add(&query, "\0\1\0\1", 4);
	return ask_query();
}

static void odd_labels_are_refused(void **state)
{
	static const struct bytes odd[] = {
		BYTES("\xc0\x0c"),
		BYTES("\xc0\x00"),
		BYTES("\1a\xc0\x0c"),
		BYTES("\x41"
		      "a\0"),
		BYTES("\x81"
		      "a\0"),
		BYTES("\xff\xff"),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(odd); i++)
		assert_string_equal(ask_raw(odd[i]), "FORMERR");
}

/* A dot or a NUL within a label must not make another name of it. */
static void labels_cannot_pretend(void **state)
{
	static const struct bytes odd[] = {
		BYTES("\x0f"
		      "api.example.com\0"),
		BYTES("\3api\7example\4com\0\0"),
		BYTES("\1.\0"),
		BYTES("\x09localhost\1\0\0"),
		BYTES("\x0a\0localhost\0"),
	};

	(void)state;
	policy.mode = DNS_DENY;
	assert_string_equal(ask_raw(BYTES("\3api\7example\3com\0")), "NOERROR 198.18.0.2");
	for (size_t i = 0; i < ARRAY_LEN(odd); i++)
		assert_string_equal(ask_raw(odd[i]), "NXDOMAIN");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	RUN_TESTS(CASE(names_have_an_address_of_each_family), CASE(without_ipv6_there_is_no_aaaa),
		  CASE(case_is_kept_and_does_not_matter), CASE(localhost_is_the_agent_s_own),
		  CASE(local_names_exist_only_if_allowed), CASE(deny_hides_what_is_not_allowed),
		  CASE(some_names_never_exist), CASE(other_types_are_empty_at_once),
		  CASE(addresses_have_their_names), CASE(other_addresses_have_none),
		  CASE(the_longest_names_fit), CASE(opt_is_answered_with_opt),
		  CASE(another_version_is_told_which_one_there_is), CASE(bad_opt_is_refused),
		  CASE(what_is_no_query_is_dropped), CASE(half_a_query_is_refused),
		  CASE(other_operations_are_not_known), CASE(other_classes_are_refused),
		  CASE(odd_counts_are_refused), CASE(odd_labels_are_refused),
		  CASE(labels_cannot_pretend));
}
