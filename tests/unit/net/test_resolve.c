/* SPDX-License-Identifier: MIT */
/* The resolver, against a name server that plays a script. */
#include "dns_server.h"

#include <signal.h>

#include "base/clock.h"
#include "net/resolve.h"

static const struct dns_row rows[] = {
	{ .name = "dual.test", .v6 = "2001:db8::1", .v4 = "192.0.2.1", .ttl = 30 },
	{ .name = "v4.test", .v4 = "192.0.2.2", .ttl = 30 },
	{ .name = "v6.test", .v6 = "2001:db8::2", .ttl = 30 },
	{ .name = "empty.test" },
	{ .name = "slow6.test", .v4 = "192.0.2.3", .v6_code = DNS_DROP, .ttl = 30 },
	{ .name = "slow4.test", .v6 = "2001:db8::3", .v4_code = DNS_DROP, .ttl = 30 },
	{ .name = "fail.test", .v6_code = DNS_SERVFAIL, .v4_code = DNS_SERVFAIL },
	{ .name = "refused.test", .v6_code = DNS_REFUSED, .v4_code = DNS_REFUSED },
	{ .name = "half.test", .v6_code = DNS_SERVFAIL, .v4 = "192.0.2.4", .ttl = 30 },
	{ .name = "unsure.test", .v6_code = DNS_SERVFAIL, .v4_code = DNS_NXDOMAIN },
	{ .name = "drop.test", .v6_code = DNS_DROP, .v4_code = DNS_DROP },
	{ .name = "garbage.test", .v6_code = DNS_GARBAGE, .v4_code = DNS_GARBAGE },
	{ .name = "cut.test", .v6_code = DNS_CUT, .v4_code = DNS_CUT },
	{ .name = "many.test", .v4 = "192.0.2.10", .v4_count = 20, .ttl = 30 },
	{ .name = "once.test", .v4 = "192.0.2.5", .ttl = 0 },
	{ .name = "long.test", .v4 = "192.0.2.6", .ttl = 1000000 },
	{ .name = "short.test", .v4 = "192.0.2.7", .ttl = 5 },
	{ .name = NULL },
};

struct asker {
	struct resolve question;
	struct resolve_answer answer;
	int calls;
	bool is_final, cancels_itself;
	int code;
	const char *why;
};

static struct loop loop;
static struct resolver *resolver;
static struct dns_server server;

static int set_up(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_DFL);
	if (loop_init(&loop) < 0)
		return -1;
	resolver = resolver_new(&loop);
	dns_server_open(&server, &loop, rows);
	resolver_set_servers(resolver, server.address);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	resolver_free(resolver);
	dns_server_close(&server, &loop);
	loop_fini(&loop);
	return 0;
}

static void on_answer(struct resolve *question, const struct resolve_answer *answer, bool is_final,
		      int code, const char *why, uint64_t now_ms)
{
	struct asker *asker = OWNER_OF(question, struct asker, question);

	assert_true(now_ms > 0);
	assert_false(asker->is_final);
	asker->calls++;
	asker->answer = *answer;
	asker->is_final = is_final;
	asker->code = code;
	asker->why = why;
	if (asker->cancels_itself)
		resolve_cancel(question);
}

static void ask(struct asker *asker, const char *name)
{
	*asker = (struct asker){ .question.on_answer = on_answer };
	resolve_start(resolver, &asker->question, name, clock_now_ms());
}

static void turn_until(const struct asker *asker, bool wants_final)
{
	uint64_t end_ms = clock_now_ms() + 10000;

	while (wants_final ? !asker->is_final : asker->calls == 0) {
		assert_true(clock_now_ms() < end_ms);
		assert_int_equal(loop_turn(&loop, 100), 0);
	}
}

/* Good until the next one. */
static const struct asker *find(const char *name)
{
	static struct asker asker;

	ask(&asker, name);
	turn_until(&asker, true);
	return &asker;
}

static void assert_v4(const struct resolve_answer *answer, size_t i, const char *text)
{
	char found[INET_ADDRSTRLEN];

	assert_true(i < answer->v4_count);
	assert_string_equal(inet_ntop(AF_INET, &answer->v4[i], found, sizeof(found)), text);
}

static void assert_v6(const struct resolve_answer *answer, size_t i, const char *text)
{
	char found[INET6_ADDRSTRLEN];

	assert_true(i < answer->v6_count);
	assert_string_equal(inet_ntop(AF_INET6, &answer->v6[i], found, sizeof(found)), text);
}

/* ---- what needs no server ---- */

static void literals_are_answered_at_once(void **state)
{
	static const char *const v6[] = { "2001:db8::7", "[2001:db8::7]" };
	struct asker asker;

	(void)state;
	ask(&asker, "192.0.2.9");
	assert_true(asker.is_final);
	assert_v4(&asker.answer, 0, "192.0.2.9");
	assert_int_equal(asker.answer.v6_count, 0);
	for (size_t i = 0; i < ARRAY_LEN(v6); i++) {
		ask(&asker, v6[i]);
		assert_true(asker.is_final);
		assert_v6(&asker.answer, 0, "2001:db8::7");
		assert_int_equal(asker.answer.v4_count, 0);
	}
	assert_int_equal(server.v6_asked + server.v4_asked, 0);
}

static void localhost_is_here(void **state)
{
	static const char *const names[] = { "localhost", "LocalHost.", "a.localhost" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct asker asker = *find(names[i]);

		assert_v6(&asker.answer, 0, "::1");
		assert_v4(&asker.answer, 0, "127.0.0.1");
	}
	assert_int_equal(find("notlocalhost")->code, ENOENT);
	assert_true(server.v4_asked > 0);
}

/* The first name of the hosts file that is not localhost, wherever this runs. */
static bool read_hosts(char *ret_address, char *ret_name)
{
	_cleanup_file_ FILE *file = fopen("/etc/hosts", "re");
	char line[512];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%63[0-9.] %255s", ret_address, ret_name) == 2 &&
		    !strstr(ret_name, "localhost") && ret_name[0] != '#')
			return true;
	return false;
}

static void the_hosts_file_comes_before_the_servers(void **state)
{
	char address[64], name[256];
	struct asker asker;

	(void)state;
	if (!read_hosts(address, name)) {
		print_message("no name but localhost in /etc/hosts\n");
		skip();
	}
	asker = *find(name);
	assert_v4(&asker.answer, 0, address);
	assert_int_equal(server.v6_asked + server.v4_asked, 0);
}

static void what_is_no_name_is_not_asked_for(void **state)
{
	static const char *const names[] = {
		"",          ".",   "127.1", "2130706433", "0x7f.1",      "0x7f000001",
		"1.2.3.4.5", "a b", "a\tb",  "a\xc3\xb6",  "a/b",         "a.test:1",
		"[::1",      "[]",  "fe80%", "1.2.3.4.",   "[192.0.2.1]", "a.0x1f",
	};
	char long_name[RESOLVE_NAME_MAX + 2];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct asker asker;

		ask(&asker, names[i]);
		assert_true(asker.is_final);
		assert_int_equal(asker.code, ENOENT);
		assert_non_null(asker.why);
	}
	memset(long_name, 'a', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	assert_int_equal(find(long_name)->code, ENOENT);
	assert_int_equal(server.v6_asked + server.v4_asked, 0);
	/* A number at the beginning is fine, and so is hex that is a word. */
	assert_int_equal(find("1password.test")->code, ENOENT);
	assert_int_equal(find("4chan.0xyz")->code, ENOENT);
	assert_true(server.v4_asked >= 2);
}

static void an_empty_label_is_no_name(void **state)
{
	(void)state;
	assert_int_equal(find("a..test")->code, ENOENT);
}

/* ---- what servers say ---- */

static void both_families_are_found(void **state)
{
	struct asker asker = *find("dual.test");

	(void)state;
	assert_int_equal(asker.code, 0);
	assert_v6(&asker.answer, 0, "2001:db8::1");
	assert_v4(&asker.answer, 0, "192.0.2.1");
	assert_int_equal(asker.answer.v6_count + asker.answer.v4_count, 2);
}

static void one_family_is_enough(void **state)
{
	(void)state;
	assert_v4(&find("v4.test")->answer, 0, "192.0.2.2");
	assert_v6(&find("v6.test")->answer, 0, "2001:db8::2");
	assert_int_equal(find("half.test")->code, 0);
}

static void what_does_not_exist_is_told_from_what_failed(void **state)
{
	(void)state;
	assert_int_equal(find("missing.test")->code, ENOENT);
	assert_int_equal(find("empty.test")->code, ENOENT);
	assert_int_equal(find("fail.test")->code, EAGAIN);
	assert_int_equal(find("refused.test")->code, EAGAIN);
	assert_int_equal(find("unsure.test")->code, EAGAIN);
	assert_int_equal(find("drop.test")->code, EAGAIN);
	assert_int_equal(find("garbage.test")->code, EAGAIN);
	assert_non_null(find("missing.test")->why);
}

static void no_server_is_a_failure(void **state)
{
	(void)state;
	resolver_set_servers(resolver, "127.0.0.1:1");
	assert_int_equal(find("dual.test")->code, EAGAIN);
	resolver_set_servers(resolver, "nonsense");
	assert_int_equal(find("dual.test")->code, EAGAIN);
}

/* By TCP, to a server that resets: a failure, and no SIGPIPE. */
static void a_server_that_resets_is_a_failure(void **state)
{
	(void)state;
	assert_int_equal(find("cut.test")->code, EAGAIN);
	assert_true(server.tcp_asked > 0);
}

static void addresses_are_bounded(void **state)
{
	struct asker asker = *find("many.test");

	(void)state;
	assert_int_equal(asker.answer.v4_count, RESOLVE_FAMILY_MAX);
	assert_v4(&asker.answer, 0, "192.0.2.10"); /* the server's order */
	assert_v4(&asker.answer, 7, "192.0.2.17");
}

static void a_family_that_is_dropped_holds_nobody_up(void **state)
{
	static const char *const names[] = { "slow6.test", "slow4.test" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct asker first, second;

		ask(&first, names[i]);
		turn_until(&first, false);
		assert_false(first.is_final);
		assert_int_equal(first.answer.v6_count + first.answer.v4_count, 1);
		/* Who comes now is told what is known. */
		ask(&second, names[i]);
		assert_int_equal(second.calls, 1);
		assert_false(second.is_final);
		turn_until(&first, true);
		assert_true(second.is_final);
		assert_int_equal(first.code, 0);
	}
}

/* ---- what is kept ---- */

static void answers_are_kept_for_their_time(void **state)
{
	uint64_t now_ms = clock_now_ms();
	struct asker asker = { .question.on_answer = on_answer };

	(void)state;
	find("short.test");
	find("long.test");
	assert_int_equal(server.v4_asked, 2);
	ask(&asker, "SHORT.test");
	assert_true(asker.is_final);
	assert_v4(&asker.answer, 0, "192.0.2.7");

	asker = (struct asker){ .question.on_answer = on_answer };
	resolve_start(resolver, &asker.question, "short.test", now_ms + 7000);
	assert_false(asker.is_final); /* asked anew */
	turn_until(&asker, true);
	assert_int_equal(server.v4_asked, 3);

	asker = (struct asker){ .question.on_answer = on_answer };
	resolve_start(resolver, &asker.question, "long.test", now_ms + RESOLVE_KEEP_MS - 1000);
	assert_true(asker.is_final);
	asker = (struct asker){ .question.on_answer = on_answer };
	resolve_start(resolver, &asker.question, "long.test", now_ms + RESOLVE_KEEP_MS + 1000);
	assert_false(asker.is_final);
	turn_until(&asker, true);
}

static void some_are_not_kept(void **state)
{
	(void)state;
	find("once.test");
	find("once.test");
	assert_int_equal(server.v4_asked, 2);
	find("missing.test");
	find("missing.test");
	assert_int_equal(server.v4_asked, 4);
}

static void those_who_ask_the_same_share_a_lookup(void **state)
{
	struct asker askers[10];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(askers); i++)
		ask(&askers[i], "dual.test");
	resolve_cancel(&askers[3].question);
	resolve_cancel(&askers[3].question); /* twice does no harm */
	turn_until(&askers[0], true);
	for (size_t i = 0; i < ARRAY_LEN(askers); i++)
		assert_int_equal(askers[i].is_final, i != 3);
	assert_int_equal(server.v6_asked, 1);
	assert_int_equal(server.v4_asked, 1);
}

static void the_cache_is_bounded(void **state)
{
	static struct dns_row wide[RESOLVE_CACHE_MAX + 11];
	static char names[RESOLVE_CACHE_MAX + 10][16];
	int asked;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(names[i], sizeof(names[i]), "n%zu.test", i);
		wide[i] = (struct dns_row){ .name = names[i],
					    .v4 = "192.0.2.1",
					    .ttl = 20 + (unsigned int)i % 30 };
	}
	server.rows = wide;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		find(names[i]);
	asked = server.v4_asked;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct asker asker;

		ask(&asker, names[i]);
		asked -= asker.is_final;
		resolve_cancel(&asker.question);
	}
	/* All but those that were kept would have been asked for anew. */
	assert_int_equal(asked, 10);
}

/* ---- second thoughts ---- */

static void a_cancelled_question_is_not_answered(void **state)
{
	struct asker asker;

	(void)state;
	ask(&asker, "dual.test");
	resolve_cancel(&asker.question);
	for (int i = 0; i < 20; i++)
		assert_int_equal(loop_turn(&loop, 5), 0);
	assert_int_equal(asker.calls, 0);
	/* It was found all the same. */
	ask(&asker, "dual.test");
	assert_true(asker.is_final);
}

static void a_question_may_cancel_itself(void **state)
{
	struct asker asker, other;

	(void)state;
	ask(&asker, "slow6.test");
	asker.cancels_itself = true;
	ask(&other, "slow6.test");
	turn_until(&other, true);
	assert_int_equal(asker.calls, 1);
	assert_int_equal(other.calls, 2);
}

/* Run by valgrind and ASan: nothing is used after it is freed, nothing stays. */
static void a_resolver_can_go_at_any_time(void **state)
{
	static const char *const names[] = { "dual.test", "drop.test", "slow6.test", "cut.test" };

	(void)state;
	for (int turns = 0; turns < 6; turns++) {
		struct resolver *other = resolver_new(&loop);

		resolver_set_servers(other, server.address);
		for (size_t i = 0; i < ARRAY_LEN(names); i++) {
			struct asker asker = { .question.on_answer = on_answer };

			resolve_start(other, &asker.question, names[i], clock_now_ms());
			resolve_cancel(&asker.question);
		}
		for (int i = 0; i < turns; i++)
			assert_int_equal(loop_turn(&loop, 20), 0);
		resolver_free(other);
	}
	resolver_free(NULL);
}

#define R(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	RUN_TESTS(R(literals_are_answered_at_once), R(localhost_is_here),
		  R(the_hosts_file_comes_before_the_servers), R(what_is_no_name_is_not_asked_for),
		  R(an_empty_label_is_no_name), R(both_families_are_found), R(one_family_is_enough),
		  R(what_does_not_exist_is_told_from_what_failed), R(no_server_is_a_failure),
		  R(a_server_that_resets_is_a_failure), R(addresses_are_bounded),
		  R(a_family_that_is_dropped_holds_nobody_up), R(answers_are_kept_for_their_time),
		  R(some_are_not_kept), R(those_who_ask_the_same_share_a_lookup),
		  R(the_cache_is_bounded), R(a_cancelled_question_is_not_answered),
		  R(a_question_may_cancel_itself), R(a_resolver_can_go_at_any_time));
}
