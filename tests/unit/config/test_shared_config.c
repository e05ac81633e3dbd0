/* SPDX-License-Identifier: MIT */
/* What a shared keeper is told: options, a file, and both together. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/money.h"
#include "config/shared_config.h"

#define WORDS_MAX 16

static int parse(struct shared_config *config, const char *const *words, struct err *err)
{
	const char *argv[WORDS_MAX + 1] = { "keeper" };
	int argc = 1;

	for (; words[argc - 1]; argc++)
		argv[argc] = words[argc - 1];
	return shared_config_parse(config, argc, (char **)argv, err);
}

static void defaults_are_there(void **state)
{
	struct shared_config config;
	struct err err = { 0 };

	(void)state;
	shared_config_init(&config);
	assert_int_equal(shared_config_check(&config, &err), 0);
	assert_null(config.control.path);
	assert_int_equal(config.control_mode, 0600);
	assert_null(config.store);
	assert_int_equal(config.reconcile_every_ms, 300000);
	assert_int_equal(config.reconcile_grace_ms, 600000);
	assert_int_equal(config.drain_ms, 30000);
	assert_string_equal(config.log, "text");
	assert_int_equal(config.keeper.spend_reserve, MONEY_UNIT / 20);
	shared_config_fini(&config);
}

static void options_arrive(void **state)
{
	static const char *const where[] = { "--control",         "unix:/run/k",
					     "--control-mode",    "0660",
					     "--control-user",    "ci",
					     "--control-user",    "1001",
					     "--listen",          "tls:[::1]:7443",
					     "--admin",           "tcp:127.0.0.1:9464",
					     "--store=memory:",   "--log=json",
					     "--drain-timeout=0", NULL };
	static const char *const keys[] = { "--cert=c.pem",         "--cert-key=file:k",
					    "--link-key=a=env:A",   "--link-key=b-2=exec:cat k",
					    "--token-key=a=env:B",  "--reconcile-every=1m",
					    "--reconcile-grace=2m", "--llm=http://l:4000",
					    "--limit=run:spend=1",  NULL };
	struct shared_config config;
	struct err err = { 0 };

	(void)state;
	shared_config_init(&config);
	assert_int_equal(parse(&config, where, &err), 0);
	assert_int_equal(parse(&config, keys, &err), 0);
	assert_int_equal(shared_config_check(&config, &err), 0);
	assert_string_equal(config.control.path, "/run/k");
	assert_null(config.control.host);
	assert_int_equal(config.control_mode, 0660);
	assert_int_equal(config.control_user_count, 2);
	assert_string_equal(config.control_users[1], "1001");
	assert_string_equal(config.listen.host, "::1");
	assert_int_equal(config.listen.port, 7443);
	assert_string_equal(config.admin.host, "127.0.0.1");
	assert_null(config.admin.path);
	assert_string_equal(config.store, "memory:");
	assert_int_equal(config.link_keys.count, 2);
	assert_string_equal(config.link_keys.keys[1].id, "b-2");
	assert_string_equal(config.link_keys.keys[1].source, "exec:cat k");
	assert_int_equal(config.token_keys.count, 1);
	assert_string_equal(config.token_keys.keys[0].source, "env:B");
	assert_int_equal(config.reconcile_every_ms, 60000);
	assert_int_equal(config.drain_ms, 0);
	assert_int_equal(config.keeper.llm_count, 1);
	assert_int_equal(config.keeper.run_limits.spend, MONEY_UNIT);
	shared_config_fini(&config);
}

#define LONG_PATH                                                                                  \
	"unix:/0123456789012345678901234567890123456789012345678901234567890123456789012345678901" \
	"2345678901234567890123456789"

static void what_is_wrong_is_said(void **state)
{
	static const struct {
		const char *option, *text, *expected; /* the whole error */
	} rows[] = {
		{ "--control", "/run/k", "--control: '/run/k' is not unix:PATH" },
		{ "--control", "tcp:127.0.0.1:1", "--control: 'tcp:127.0.0.1:1' is not unix:PATH" },
		{ "--control", "unix:", "--control: the path of a socket has 1 to 107 bytes" },
		{ "--control", LONG_PATH, "--control: the path of a socket has 1 to 107 bytes" },
		{ "--control-mode", "rw",
		  "--control-mode: 'rw' is not permissions in octal, such "
		  "as 0660" },
		{ "--control-mode", "1777",
		  "--control-mode: '1777' is not permissions in octal, "
		  "such as 0660" },
		{ "--control-mode", "",
		  "--control-mode: '' is not permissions in octal, such as "
		  "0660" },
		{ "--control-user", "a b", "--control-user: 'a b' is not a user's name or number" },
		{ "--control-user", "", "--control-user: '' is not a user's name or number" },
		{ "--listen", "tcp:0.0.0.0:1",
		  "--listen: 'tcp:0.0.0.0:1' is not "
		  "tls:ADDRESS:PORT" },
		{ "--listen", "tls:0.0.0.0", "--listen: 'tls:0.0.0.0' is not tls:ADDRESS:PORT" },
		{ "--admin", "tls:0.0.0.0:1",
		  "--admin: 'tls:0.0.0.0:1' is not "
		  "unix:PATH|tcp:ADDRESS:PORT" },
		{ "--log", "xml", "--log: 'xml' is not one of json|text" },
		{ "--contol", "x", "unknown option '--contol'; did you mean --control?" },
		{ "--timeout", "1m",
		  "unknown option '--timeout'; 'warder keeper --help' lists "
		  "them; what is not an option goes after --" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *const words[] = { rows[i].option, rows[i].text, NULL };
		struct shared_config config;
		struct err err = { 0 };

		shared_config_init(&config);
		if (parse(&config, words, &err) == 0)
			fail_msg("accepted: %s %s", rows[i].option, rows[i].text);
		if (strcmp(err.text, rows[i].expected) != 0)
			fail_msg("'%s' is not '%s'", err.text, rows[i].expected);
		shared_config_fini(&config);
	}
}

/* Somebody gives the secret itself where a source belongs. */
static void no_secret_is_in_an_error(void **state)
{
	static const char *const rows[][2] = {
		{ "--store", "postgres://u:LIVE@h/d" },
		{ "--store", "mysql://u:LIVE@h/d" },
		{ "--store", "LIVE" },
		{ "--store", "memory:LIVE" },
		{ "--store", "exec:echo LIVE" },
		{ "--token-key", "LIVE" },
		{ "--token-key", "a=LIVE" },
		{ "--token-key", "a=config:LIVE" },
		{ "--token-key", "not an id=LIVE" },
		{ "--cert-key", "LIVE" },
		{ "--cert-key", "config:LIVE" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *const words[] = { rows[i][0], rows[i][1], NULL };
		struct shared_config config;
		struct err err = { 0 };

		shared_config_init(&config);
		if (parse(&config, words, &err) == 0)
			fail_msg("accepted: %s %s", rows[i][0], rows[i][1]);
		if (strstr(err.text, "LIVE") || strncmp(err.text, rows[i][0], strlen(rows[i][0])))
			fail_msg("%s", err.text);
		shared_config_fini(&config);
	}
}

static void stores_are_known(void **state)
{
	static const struct {
		const char *text;
		bool is_source;
	} rows[] = {
		{ "sqlite:/var/lib/k.db", false },
		{ "postgresql://u:p@h/d", false },
		{ "redis://:p@h:6379/0", false },
		{ "memory:", false },
		{ "env:STORE", true },
		{ "file:/etc/store", true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *const words[] = { "--store", rows[i].text, NULL };
		struct shared_config config;
		struct err err = { 0 };

		shared_config_init(&config);
		if (parse(&config, words, &err) < 0)
			fail_msg("%s: %s", rows[i].text, err.text);
		assert_string_equal(config.store, rows[i].text);
		assert_int_equal(shared_store_is_source(config.store), rows[i].is_source);
		shared_config_fini(&config);
	}
}

static void what_belongs_together_is_checked(void **state)
{
	static const struct {
		const char *words[5];
		const char *expected; /* how the error begins, or NULL */
	} rows[] = {
		{ { "--listen=tls:0.0.0.0:1", NULL }, "--listen: needs --cert FILE" },
		{ { "--listen=tls:0.0.0.0:1", "--cert=c", NULL }, "--listen: needs --cert FILE" },
		{ { "--listen=tls:0.0.0.0:1", "--cert=c", "--cert-key=file:k", NULL },
		  "--listen: needs --link-key" },
		{ { "--listen=tls:0.0.0.0:1", "--cert=c", "--cert-key=file:k",
		    "--token-key=a=env:A", NULL },
		  "--listen: needs --link-key" },
		{ { "--listen=tls:0.0.0.0:1", "--cert=c", "--cert-key=file:k", "--link-key=a=env:A",
		    NULL },
		  NULL },
		{ { "--cert=c", NULL }, "--cert and --cert-key belong to --listen" },
		{ { "--token-key=a=env:A", NULL }, NULL },
		{ { "--limit=run:burst=5", NULL }, "--limit: run: burst belongs to requests" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct shared_config config;
		struct err err = { 0 };
		int r;

		shared_config_init(&config);
		assert_int_equal(parse(&config, rows[i].words, &err), 0);
		r = shared_config_check(&config, &err);
		assert_int_equal(r < 0, rows[i].expected != NULL);
		if (r < 0 && strncmp(err.text, rows[i].expected, strlen(rows[i].expected)) != 0)
			fail_msg("'%s' is not '%s'", err.text, rows[i].expected);
		shared_config_fini(&config);
	}
}

static void there_are_eight_keys(void **state)
{
	struct shared_config config;
	struct err err = { 0 };
	char words[SHARED_KEYS_MAX + 1][32];

	(void)state;
	shared_config_init(&config);
	for (size_t i = 0; i <= SHARED_KEYS_MAX; i++) {
		const char *const word[] = { words[i], NULL };

		snprintf(words[i], sizeof(words[i]), "--token-key=k%zu=env:K", i);
		assert_int_equal(parse(&config, word, &err) == 0, i < SHARED_KEYS_MAX);
	}
	assert_string_equal(err.text, "--token-key: more than 8 keys");
	config.token_keys.count = 1;
	assert_true(parse(&config, (const char *const[]){ words[0], NULL }, &err) < 0);
	assert_string_equal(err.text, "--token-key: k0 is given twice");
	shared_config_fini(&config);
}

/* ---- with a file ---- */

static int write_file(char *path, const char *text)
{
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

static int read_file(const char *text, const char *option, struct shared_config *config,
		     struct config_file *file, struct err *err)
{
	static char path[64];
	const char *argv[] = { "keeper", "--config", path, option, NULL };
	int fd, r;

	strcpy(path, "/tmp/test_shared.XXXXXX");
	fd = write_file(path, text);
	r = shared_config_read(config, file, option ? 4 : 3, (char **)argv, err);
	close(fd);
	unlink(path);
	return r;
}

static const char whole[] =
	"{\"llm\": {\"upstream\": \"http://l:4000\", \"key\": \"env:K\"}, \"allow\": [\"a.test\"],"
	" \"secrets\": {\"A\": {\"value\": \"sk-1\", \"hosts\": [\"h.test\"]}},"
	" \"limits\": {\"spend\": 2, \"egress\": \"1M\"}, \"account_limits\": {\"t\": {\"spend\": "
	"9}},"
	" \"audit\": {\"file\": \"/a\"}, \"timeouts\": {\"idle\": 5}, \"dns\": \"deny\","
	" \"keeper\": {\"control\": \"unix:/run/k\", \"control_mode\": \"0660\","
	" \"control_users\": [\"ci\"], \"listen\": \"tls:0.0.0.0:1\", \"cert\": \"c.pem\","
	" \"cert_key\": \"file:k\", \"link_keys\": {\"a\": \"env:A\", \"b\": \"file:b\"},"
	" \"token_keys\": {\"a\": \"env:B\"},"
	" \"admin\": \"unix:/run/admin\", \"store\": \"redis://:LIVE@h\", \"log\": \"json\","
	" \"reconcile\": {\"every\": 0, \"grace\": \"1m\"}, \"drain_timeout\": \"5s\"}}";

static void a_file_says_the_same(void **state)
{
	struct shared_config config;
	struct config_file file;
	struct err err = { 0 };

	(void)state;
	if (read_file(whole, "--log=text", &config, &file, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(config.control.path, "/run/k");
	assert_int_equal(config.control_mode, 0660);
	assert_int_equal(config.control_user_count, 1);
	assert_string_equal(config.cert, "/tmp/c.pem");
	assert_int_equal(config.link_keys.count, 2);
	assert_string_equal(config.link_keys.keys[1].source, "file:b");
	assert_string_equal(config.token_keys.keys[0].source, "env:B");
	assert_string_equal(config.admin.path, "/run/admin");
	assert_string_equal(config.store, "redis://:LIVE@h");
	assert_int_equal(config.reconcile_every_ms, 0);
	assert_int_equal(config.reconcile_grace_ms, 60000);
	assert_int_equal(config.drain_ms, 5000);
	assert_string_equal(config.log, "text"); /* the command line counts over it */
	assert_int_equal(config.keeper.llm_count, 1);
	assert_int_equal(config.keeper.rule_count, 1);
	assert_string_equal(config.keeper.secrets[0].source, "config:A");
	assert_int_equal(config.keeper.account_limits[0].limits.spend, 9 * MONEY_UNIT);
	assert_int_equal(config.keeper.egress_bytes, 1 << 20);
	assert_int_equal(file.value_count, 1);
	assert_string_equal(file.values[0].text, "sk-1");
	shared_config_fini(&config);
	config_file_fini(&file);
}

static void a_file_is_read_again_and_again(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++) {
		struct shared_config config;
		struct config_file file;
		struct err err = { 0 };
		bool is_good = i % 3 != 0;

		assert_int_equal(read_file(is_good ? whole : "{\"keeper\": {\"log\": \"xml\"}}",
					   NULL, &config, &file, &err) == 0,
				 is_good);
		assert_int_equal(file.value_count, is_good);
		shared_config_fini(&config);
		config_file_fini(&file);
	}
}

static void each_file_is_for_somebody(void **state)
{
	static const struct {
		const char *text, *expected; /* after the file's name */
	} rows[] = {
		{ "{\"allow\": [],\n\"workspace\": \"w\"}",
		  ":2: workspace is for 'warder run'; a shared keeper has no sandbox" },
		{ "{\"mounts\": []}",
		  ":1: mounts is for 'warder run'; a shared keeper has no sandbox" },
		{ "{\"limits\": {\"spend\": 1,\n\"memory\": \"1G\"}}",
		  ":2: limits.memory is for 'warder run'; a shared keeper has no sandbox" },
		{ "{\"llm\": [{\"upstream\": \"http://a\"},\n{\"match\": \"b\", \"upstream\": "
		  "\"http://b\", \"port\": 81}]}",
		  ":2: llm[1].port is for 'warder run'; a shared keeper has no sandbox" },
	};
	struct shared_config config;
	struct config_file file;
	struct err err = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(read_file(rows[i].text, NULL, &config, &file, &err), -EINVAL);
		if (!strstr(err.text, rows[i].expected))
			fail_msg("'%s' is not '%s'", err.text, rows[i].expected);
		shared_config_fini(&config);
		config_file_fini(&file);
	}
}

static void a_run_takes_no_keeper(void **state)
{
	static const char *const rows[] = { "{\"allow\": [],\n\"keeper\": {}}",
					    "{\"allow\": [],\n\"keeper\": {\"log\": \"json\"}}" };
	struct config_file file;
	struct err err = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(config_file_parse("w.json", bytes_of(rows[i]), &file, &err), 0);
		assert_int_equal(config_file_expect(&file, "w.json", CONFIG_FOR_SHARED, &err), 0);
		assert_int_equal(config_file_expect(&file, "w.json", CONFIG_FOR_RUN, &err),
				 -EINVAL);
		assert_string_equal(err.text, "w.json:2: keeper is for 'warder keeper', and this "
					      "file for a run or a gate");
		config_file_fini(&file);
	}
}

static void help_looks_at_nothing_else(void **state)
{
	const char *argv[] = { "keeper", "--config", "/nowhere.json", "--help", NULL };
	struct shared_config config;
	struct config_file file;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(shared_config_read(&config, &file, 4, (char **)argv, &err), 0);
	assert_true(config.help);
	shared_config_fini(&config);
	config_file_fini(&file);
	assert_int_equal(shared_config_read(&config, &file, 3, (char **)argv, &err), -ENOENT);
	shared_config_fini(&config);
	config_file_fini(&file);
}

/* What a command line has to say, and a file has not. */
static void something_is_to_be_served(void **state)
{
	static const char *const lines[][2] = {
		{ "--llm=http://l:4000", NULL },
		{ "--allow-net=a.test", NULL },
		{ "--secret=A=env:A@a.test", NULL },
		{ NULL, "nothing to serve" },
		{ "--store=memory:", "nothing to serve" },
		{ "--deny-net=a.test", "nothing to serve" },
		{ "--no-such-option", "no-such-option" },
	};
	struct shared_config config;
	struct config_file file;
	struct err err = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		const char *argv[] = { "keeper", lines[i][0], NULL };
		int r = shared_config_read(&config, &file, lines[i][0] ? 2 : 1, (char **)argv,
					   &err);

		assert_int_equal(r, lines[i][1] ? -EINVAL : 0);
		if (lines[i][1])
			assert_non_null(strstr(err.text, lines[i][1]));
		assert_int_equal(shared_config_allows_any(&config), r == 0);
		shared_config_fini(&config);
		config_file_fini(&file);
	}
	assert_int_equal(read_file("{}", NULL, &config, &file, &err), 0);
	assert_false(shared_config_allows_any(&config));
	shared_config_fini(&config);
	config_file_fini(&file);
}

int main(void)
{
	RUN_TESTS(TEST(defaults_are_there), TEST(options_arrive), TEST(what_is_wrong_is_said),
		  TEST(no_secret_is_in_an_error), TEST(stores_are_known),
		  TEST(what_belongs_together_is_checked), TEST(there_are_eight_keys),
		  TEST(a_file_says_the_same), TEST(a_file_is_read_again_and_again),
		  TEST(each_file_is_for_somebody), TEST(a_run_takes_no_keeper),
		  TEST(help_looks_at_nothing_else), TEST(something_is_to_be_served));
}
