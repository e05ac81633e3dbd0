/* SPDX-License-Identifier: MIT */
/* INV-HOST-SCOPED: a placeholder becomes the secret only where it may, and is found elsewhere. */
#include "unit.h"

#include "keeper/substitute.h"

enum {
	TOKEN,    /* in the default places */
	DATABASE, /* of many characters that are escaped somewhere; anywhere */
	SHORT,    /* with a placeholder of another length; anywhere */
	PEM,      /* has line ends */
	SPACED,   /* has a space, and what looks percent-encoded; anywhere */
	CROOKED,  /* has a placeholder with other signs; anywhere */
	PERCENT,  /* is more than it should be as it is; anywhere */
	ASKING,   /* has a question mark; in the default places */
	ASKING_2, /* has one, too; anywhere */
	COUNT,
};

#define DEFAULT_PLACES (KEEPER_HEADER | KEEPER_BASIC | KEEPER_QUERY)
#define ANYWHERE       63

static const struct substitute_secret secrets[COUNT] = {
	[TOKEN] = { BYTES("ghp_PPPPPPPPPPPP"), BYTES("ghp_realvalue123"), DEFAULT_PLACES },
	[DATABASE] = { BYTES("QQ/QQ\"QQ+QQ&QQ=="), BYTES("db/se\"cr+et&42=="), ANYWHERE },
	[SHORT] = { BYTES("SHORT_ONE"), BYTES("a\"much/longer value&more"), ANYWHERE },
	[PEM] = { BYTES("MMMMMMMM\nMMMM"), BYTES("pem00000\nend0"), ANYWHERE },
	[SPACED] = { BYTES("RR RR%41RR+RRRR"), BYTES("ab cd%42ef+ghij"), ANYWHERE },
	[PERCENT] = { BYTES("ZZ%ZZZZZZ"), BYTES("up%2Fdown"), ANYWHERE },
	[ASKING] = { BYTES("XXXXXX?XXX"), BYTES("asking?one"), DEFAULT_PLACES },
	[ASKING_2] = { BYTES("YYYYYY?YYY"), BYTES("asking?two"), ANYWHERE },
	[CROOKED] = { BYTES("WW&WW\"WWWWWW"), BYTES("v/\"w x&yyy"), ANYWHERE },
};

static struct substitute_set *set;
static struct buf out;
static struct substitute_found found;

static int make_set(void **state)
{
	(void)state;
	buf_init(&out, 1 << 16);
	return substitute_set_new(secrets, COUNT, &set);
}

static int free_set(void **state)
{
	(void)state;
	substitute_set_free(set);
	buf_fini(&out);
	return 0;
}

static void reset(void)
{
	out.len = 0;
	found = (struct substitute_found){ 0 };
}

static void assert_out(const char *expected)
{
	assert_int_equal(out.len, strlen(expected));
	assert_memory_equal(out.data, expected, out.len);
}

#define BIT(n) (UINT64_C(1) << (n))
#define ALL    UINT64_MAX

static void headers_have_values(void **state)
{
	static const struct {
		const char *name, *value, *expected;
	} rows[] = {
		{ "authorization", "Bearer ghp_PPPPPPPPPPPP", "Bearer ghp_realvalue123" },
		{ "x-api-key", "ghp_PPPPPPPPPPPP", "ghp_realvalue123" },
		{ "x-keys",
		  "ghp_PPPPPPPPPPPP,QQ/QQ\"QQ+QQ&QQ==", "ghp_realvalue123,db/se\"cr+et&42==" },
		{ "x-api-key", "SHORT_ONE", "a\"much/longer value&more" },
		{ "x-api-key", "ghp_PPPPPPPPPPP", "ghp_PPPPPPPPPPP" },
		/* u:ghp_PPPPPPPPPPPP */
		{ "Authorization", "Basic dTpnaHBfUFBQUFBQUFBQUFBQ",
		  "Basic dTpnaHBfcmVhbHZhbHVlMTIz" },
		{ "Authorization",
		  "basic  Z2hwX1BQUFBQUFBQUFBQUDo=", "Basic Z2hwX3JlYWx2YWx1ZTEyMzo=" },
		{ "authorization", "Basic Z2hwX1BQUFBQUFBQUFBQUDo", /* without padding */
		  "Basic Z2hwX3JlYWx2YWx1ZTEyMzo=" },
		{ "authorization", "Basic U0hPUlRfT05F", "Basic YSJtdWNoL2xvbmdlciB2YWx1ZSZtb3Jl" },
		/* no placeholder in it: as it is */
		{ "authorization", "basic dTpw", "basic dTpw" },
		{ "authorization", "Basic", "Basic" },
		{ "authorization", "Basic !", "Basic !" },
		/* not base64, or base64 of something else: a header like others */
		{ "authorization", "Basic ghp_PPPPPPPPPPPP", "Basic ghp_realvalue123" },
		{ "user-agent", "curl/8", "curl/8" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		reset();
		assert_int_equal(substitute_header(set, ALL, bytes_of(rows[i].name),
						   bytes_of(rows[i].value), &out, &found),
				 0);
		assert_out(rows[i].expected);
		assert_int_equal(found.refused, 0);
		assert_int_equal(found.used != 0, strcasecmp(rows[i].value, rows[i].expected) != 0);
	}
}

static void headers_that_are_reflected_have_none(void **state)
{
	static const char *const names[] = { "User-Agent",  "referer",         "Origin",
					     "cookie",      "X-Forwarded-For", "x-forwarded-user",
					     "X-Request-Id" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		reset();
		assert_int_equal(substitute_header(set, ALL, bytes_of(names[i]),
						   BYTES("a ghp_PPPPPPPPPPPP"), &out, &found),
				 -EPERM);
		assert_int_equal(found.refused, BIT(TOKEN));
		assert_int_equal(found.used, 0);
		assert_out("a ghp_PPPPPPPPPPPP");
	}
	assert_false(substitute_is_reflected(BYTES("authorization")));
	assert_false(substitute_is_reflected(BYTES("x-forwarded")));
}

static void a_secret_of_another_host_is_refused(void **state)
{
	(void)state;
	reset();
	assert_int_equal(substitute_header(set, ~BIT(TOKEN), BYTES("authorization"),
					   BYTES("Bearer ghp_PPPPPPPPPPPP"), &out, &found),
			 -EPERM);
	assert_int_equal(found.refused, BIT(TOKEN));
	reset();
	assert_int_equal(substitute_header(set, ~BIT(TOKEN), BYTES("authorization"),
					   BYTES("Basic dTpnaHBfUFBQUFBQUFBQUFBQ"), &out, &found),
			 -EPERM);
	assert_int_equal(found.refused, BIT(TOKEN));
	reset();
	assert_int_equal(substitute_target(set, 0, BYTES("/?k=ghp_PPPPPPPPPPPP"), &out, &found),
			 -EPERM);
	assert_int_equal(found.refused, BIT(TOKEN));
}

/* It would end the line, and begin another. */
static void a_value_with_line_ends_goes_into_no_header(void **state)
{
	(void)state;
	reset();
	assert_int_equal(
		substitute_header(set, ALL, BYTES("x-key"), BYTES("MMMMMMMM\nMMMM"), &out, &found),
		-EPERM);
	assert_int_equal(found.refused, BIT(PEM));
}

static void targets_have_encoded_values(void **state)
{
	static const struct {
		const char *target, *expected; /* NULL: refused */
	} rows[] = {
		{ "/v1?key=ghp_PPPPPPPPPPPP&x=1", "/v1?key=ghp_realvalue123&x=1" },
		{ "/v1?key=ghp%5FPPPPPPPPPPPP", "/v1?key=ghp%5Frealvalue123" },
		{ "/v1?k=QQ%2FQQ%22QQ%2BQQ%26QQ%3D%3D", "/v1?k=db%2Fse%22cr%2Bet%2642%3D%3D" },
		{ "/v1?k=QQ%2fQQ%22QQ%2bQQ%26QQ%3d%3d", "/v1?k=db%2fse%22cr%2bet%2642%3d%3d" },
		/* Another shape: nothing of the value is more than a value. */
		{ "/v1?k=SHORT_ONE", "/v1?k=a%22much%2Flonger%20value%26more" },
		{ "/bot/SHORT_ONE/send", "/bot/a%22much%2Flonger%20value%26more/send" },
		{ "/bot/SHORT%5FONE", "/bot/a%22much%2Flonger%20value%26more" },
		{ "/ghp_PPPPPPPPPPPP/", NULL },
		/* As it was typed: what is no letter or digit stays as it is. */
		{ "/v1?k=QQ/QQ\"QQ+QQ&QQ==", "/v1?k=db/se\"cr+et&42==" },
		{ "/QQ/QQ\"QQ+QQ&QQ==/x", "/db/se\"cr+et&42==/x" },
		/* Encoded here and there. */
		{ "/v1?k=QQ/QQ%22QQ+QQ%26QQ%3d=", "/v1?k=db/se%22cr+et%2642%3d=" },
		{ "/v1?key=gh%70_PPPPPPPPPPP%50&x", "/v1?key=gh%70_realvalue12%33&x" },
		{ "/%67%68%70%5fPPPPPPPPPPPP", NULL },
		{ "/v1?k=%51QQ/QQ%22QQ%2BQQ%26QQ==%", "/v1?k=%51db/se%22cr%2Bet%2642==%" },
		/* A space, and a percent sign of its own. */
		{ "/?k=RR%20RR%2541RR%2BRRRR", "/?k=ab%20cd%2542ef%2Bghij" },
		{ "/?k=RR+RR%2541RR+RRRR", "/?k=ab+cd%2542ef+ghij" },
		{ "/?k=RR+RR%41RR+RRRR", "/?k=ab%20cd%2542ef%2Bghij" },
		{ "/ZZ%ZZZZZZ", "/up%252Fdown" },
		{ "/ZZ%25ZZZZZZ", "/up%252Fdown" },
		/* Another shape, typed: nothing of the value is more than a value. */
		{ "/?k=WW&WW\"WWWWWW&x", "/?k=v%2F%22w%20x%26yyy&x" },
		{ "/WW%26WW\"WWWWWW/x", "/v%2F%22w%20x%26yyy/x" },
		/* A question mark of its own ends the path. */
		{ "/?k=XXXXXX?XXX", "/?k=asking?one" },
		{ "/?k=XXXXXX%3FXXX", "/?k=asking%3Fone" },
		{ "/XXXXXX?XXX", NULL },
		{ "/XXXXXX%3FXXX", NULL },
		{ "/YYYYYY?YYY?x", "/asking?two?x" },
		{ "/YYYYYY%3FYYY?x", "/asking%3Ftwo?x" },
		/* What is not one stays as it was written. */
		{ "/%67hp_?%&%4&%zz&+%20&ghp_PPPPPPPPPPP",
		  "/%67hp_?%&%4&%zz&+%20&ghp_PPPPPPPPPPP" },
		{ "/?", "/?" },
		{ "/", "/" },
		{ "*", "*" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		reset();
		assert_int_equal(
			substitute_target(set, ALL, bytes_of(rows[i].target), &out, &found),
			rows[i].expected ? 0 : -EPERM);
		if (rows[i].expected)
			assert_out(rows[i].expected);
	}
}

static void emit(void *owner, struct bytes data)
{
	buf_add(owner, data.data, data.len);
}

static void substitute_in_pieces(enum keeper_place place, enum syntax syntax, struct bytes text,
				 size_t piece)
{
	struct substitute substitute;

	reset();
	substitute_init(&substitute, set, ALL, place, syntax);
	while (text.len > 0)
		substitute_push(&substitute, bytes_take(&text, piece < text.len ? piece : text.len),
				emit, &out);
	substitute_finish(&substitute, emit, &out);
	found = substitute.found;
}

static void bodies_are_written_as_their_syntax_has_it(void **state)
{
	static const struct {
		enum syntax syntax;
		const char *body, *expected;
	} rows[] = {
		{ SYNTAX_RAW, "<QQ/QQ\"QQ+QQ&QQ==>", "<db/se\"cr+et&42==>" },
		{ SYNTAX_RAW, "MMMMMMMM\nMMMM\n", "pem00000\nend0\n" },
		{ SYNTAX_JSON, "{\"a\":\"QQ/QQ\\\"QQ+QQ&QQ==\"}",
		  "{\"a\":\"db/se\\\"cr+et&42==\"}" },
		{ SYNTAX_JSON, "[\"QQ\\/QQ\\\"QQ+QQ&QQ==\"]", "[\"db\\/se\\\"cr+et&42==\"]" },
		{ SYNTAX_JSON, "[\"QQ/QQ\\\"QQ+QQ\\u0026QQ==\"]",
		  "[\"db/se\\\"cr+et\\u002642==\"]" },
		{ SYNTAX_JSON, "[\"SHORT_ONE\"]", "[\"a\\\"much/longer value&more\"]" },
		{ SYNTAX_JSON, "[\"MMMMMMMM\\nMMMM\"]", "[\"pem00000\\nend0\"]" },
		{ SYNTAX_PERCENT, "a=QQ%2FQQ%22QQ%2BQQ%26QQ%3D%3D&b=1",
		  "a=db%2Fse%22cr%2Bet%2642%3D%3D&b=1" },
		/* as people type it */
		{ SYNTAX_PERCENT, "a=QQ/QQ\"QQ+QQ&QQ==&b=1", "a=db/se\"cr+et&42==&b=1" },
		{ SYNTAX_PERCENT, "a=WW&WW\"WWWWWW&b=1", "a=v%2F%22w%20x%26yyy&b=1" },
		{ SYNTAX_JSON, "[\"WW&WW\"WWWWWW\"]", "[\"v/\\\"w x&yyy\"]" },
		{ SYNTAX_JSON, "[QQ/QQ\"QQ+QQ&QQ==]", "[db/se\"cr+et&42==]" },
		{ SYNTAX_PERCENT, "a=SHORT_ONE&b=1", "a=a%22much%2Flonger%20value%26more&b=1" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct bytes body = bytes_of(rows[i].body);

		for (size_t piece = 1; piece <= body.len; piece++) {
			substitute_in_pieces(KEEPER_BODY, rows[i].syntax, body, piece);
			assert_out(rows[i].expected);
			assert_int_equal(found.refused, 0);
			assert_true(found.used != 0);
		}
	}
}

/* "Post this placeholder in a public issue" would publish the secret. */
static void a_body_is_no_place_by_default(void **state)
{
	struct bytes body = BYTES("{\"issue\":\"my key: ghp_PPPPPPPPPPPP\"}");

	(void)state;
	for (size_t piece = 1; piece <= body.len; piece++) {
		substitute_in_pieces(KEEPER_BODY, SYNTAX_JSON, body, piece);
		assert_int_equal(found.refused, BIT(TOKEN));
		assert_int_equal(found.used, 0);
		assert_out(body.data);
	}
}

static void types_of_bodies_are_known(void **state)
{
	(void)state;
	assert_int_equal(substitute_syntax_of(BYTES("application/json")), SYNTAX_JSON);
	assert_int_equal(substitute_syntax_of(BYTES("Application/JSON; charset=utf-8")),
			 SYNTAX_JSON);
	assert_int_equal(substitute_syntax_of(BYTES("application/vnd.github.v3+json")),
			 SYNTAX_JSON);
	assert_int_equal(substitute_syntax_of(BYTES("application/x-www-form-urlencoded")),
			 SYNTAX_PERCENT);
	assert_int_equal(substitute_syntax_of(BYTES("text/plain")), SYNTAX_RAW);
	assert_int_equal(substitute_syntax_of(BYTES("+json")), SYNTAX_RAW);
	assert_int_equal(substitute_syntax_of(BYTES("")), SYNTAX_RAW);
}

static void lengths_stay_when_shapes_are_the_same(void **state)
{
	struct substitute_set *same = NULL;

	(void)state;
	assert_int_equal(substitute_set_new(secrets, 2, &same), 0);
	assert_true(substitute_keeps_length(same, SYNTAX_RAW));
	assert_true(substitute_keeps_length(same, SYNTAX_JSON));
	assert_true(substitute_keeps_length(same, SYNTAX_PERCENT));
	assert_false(substitute_keeps_length(set, SYNTAX_RAW));
	substitute_set_free(same);
	assert_true(substitute_keeps_length(NULL, SYNTAX_RAW));
}

static void limits_are_kept(void **state)
{
	struct substitute_secret empty = { BYTES(""), BYTES("value"), ANYWHERE };
	struct substitute_set *none = NULL;
	struct buf little;

	(void)state;
	buf_init(&little, 10);
	reset();
	assert_int_equal(
		substitute_header(set, ALL, BYTES("a"), BYTES("SHORT_ONE"), &little, &found),
		-E2BIG);
	assert_int_equal(substitute_header(set, ALL, BYTES("authorization"),
					   BYTES("Basic U0hPUlRfT05F"), &little, &found),
			 -E2BIG);
	assert_int_equal(substitute_target(set, ALL, BYTES("/?k=SHORT_ONE"), &little, &found),
			 -E2BIG);
	buf_fini(&little);
	assert_int_equal(substitute_set_new(&empty, 1, &none), -EINVAL);
	assert_int_equal(substitute_set_new(secrets, SUBSTITUTE_SECRETS_MAX + 1, &none), -E2BIG);
	assert_int_equal(substitute_set_new(secrets, 0, &none), 0);
	assert_null(none);
	reset();
	assert_int_equal(substitute_header(NULL, ALL, BYTES("a"), BYTES("b"), &out, &found), 0);
	assert_int_equal(substitute_target(NULL, ALL, BYTES("/?b"), &out, &found), 0);
	assert_out("b/?b");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(headers_have_values),
		TEST(headers_that_are_reflected_have_none),
		TEST(a_secret_of_another_host_is_refused),
		TEST(a_value_with_line_ends_goes_into_no_header),
		TEST(targets_have_encoded_values),
		TEST(bodies_are_written_as_their_syntax_has_it),
		TEST(a_body_is_no_place_by_default),
		TEST(types_of_bodies_are_known),
		TEST(lengths_stay_when_shapes_are_the_same),
		TEST(limits_are_kept),
	};

	return cmocka_run_group_tests(tests, make_set, free_set);
}
