/* SPDX-License-Identifier: MIT */
/* warder.json: the words it becomes, and what is said about what cannot be read. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "config/file.h"
#include "config/keeper_config.h"
#include "config/keys.h"
#include "config/settings.h"

struct good_row {
	const char *text;
	const char *run, *keeper; /* the words, each followed by a space */
};

struct bad_row {
	const char *text;
	const char *expected; /* the whole error */
};

/* The words of a list, each followed by a space. */
static void join(const struct config_words *list, char *text, size_t size)
{
	size_t used = 0;

	*text = '\0';
	for (size_t i = 0; i < list->count && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s ", list->words[i]);
	assert_true(used < size);
}

static void check_words(const struct config_words *list, const char *expected)
{
	char text[4096];

	join(list, text, sizeof(text));
	assert_string_equal(text, expected);
	assert_null(list->words[list->count]);
}

static void check_good(const char *name, const struct good_row *row)
{
	struct config_file file;
	struct err err = { 0 };

	if (config_file_parse(name, bytes_of(row->text), &file, &err) < 0)
		fail_msg("%s: %s", row->text, err.text);
	check_words(&file.run, row->run);
	check_words(&file.keeper, row->keeper);
	config_file_fini(&file);
}

static void check_bad(const char *text, const char *expected)
{
	struct config_file file;
	struct err err = { 0 };

	if (config_file_parse("w.json", bytes_of(text), &file, &err) == 0)
		fail_msg("accepted: %s", text);
	if (strcmp(err.text, expected) != 0)
		fail_msg("'%s' is not '%s'", err.text, expected);
	assert_int_not_equal(err.code, 0);
	assert_null(file.arena.head);
}

static void keys_become_words(void **state)
{
	static const struct good_row rows[] = {
		{ "{}", "", "" },
		{ " {\t}\r\n", "", "" },
		{ "{\"workspace\": \"src\"}", "--workspace src ", "" },
		{ "{\"cgroup\": \"v2\"}", "--cgroup v2 ", "" },
		{ "{\"env\": {\"B\": \"1 2\", \"A\": 3, \"C\": \"\", \"D\": \"x=y\"}}",
		  "--env B=1 2 --env A=3 --env C= --env D=x=y ", "" },
		{ "{\"limits\": {\"timeout\": \"10m\", \"memory\": \"2G\", \"pids\": 256,"
		  " \"cpu\": 1.5, \"output\": \"2M\", \"files\": 64, \"scratch\": \"1G\","
		  " \"grace\": \"1s\"}}",
		  "--timeout 10m --memory 2G --pids 256 --cpu 1.5 --output 2M --files 64 "
		  "--scratch 1G --grace 1s ",
		  "" },
		{ "{\"connect_to\": {\"api.openai.com:443\": \"127.0.0.1:8443\"}}", "",
		  "--connect-to api.openai.com:443=127.0.0.1:8443 " },
		{ "{\"upstream_ca\": \"ca.pem\"}", "", "--upstream-ca ca.pem " },
		{ "{\"audit\": {\"durability\": \"fsync\", \"file\": \"a.jsonl\"}}", "",
		  "--audit-durability fsync --audit a.jsonl " },
		{ "{\"billing_account\": \"t\", \"metadata\": {\"team\": \"s\", \"n\": 7}}", "",
		  "--billing-account t --metadata team=s --metadata n=7 " },
		{ "{\"timeouts\": {\"connect\": 5, \"first_byte\": \"1m\", \"idle\": \"1h\"}}", "",
		  "--connect-timeout 5 --first-byte-timeout 1m --idle-timeout 1h " },
		{ "{\"metadata\": {\"a\": 1}, \"env\": {\"A\": 1}, \"workspace\": \"/w\"}",
		  "--env A=1 --workspace /w ", "--metadata a=1 " },
		{ "{\"limits\": {}, \"env\": {}, \"mounts\": [], \"llm\": []}", "", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_good("w.json", &rows[i]);
}

static void numbers_are_written_plainly(void **state)
{
	static const struct good_row rows[] = {
		{ "{\"limits\": {\"pids\": 0}}", "--pids 0 ", "" },
		{ "{\"limits\": {\"pids\": -5}}", "--pids -5 ", "" },
		{ "{\"limits\": {\"pids\": 9223372036854775807}}", "--pids 9223372036854775807 ",
		  "" },
		{ "{\"limits\": {\"cpu\": 0.1}}", "--cpu 0.1 ", "" },
		{ "{\"limits\": {\"cpu\": 2.0}}", "--cpu 2 ", "" },
		{ "{\"limits\": {\"cpu\": 1e3}}", "--cpu 1000 ", "" },
		{ "{\"limits\": {\"cpu\": 1.125}}", "--cpu 1.125 ", "" },
		{ "{\"limits\": {\"cpu\": 0.1234567890123456789}}", "--cpu 0.12345678901234568 ",
		  "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_good("w.json", &rows[i]);
}

static void mounts_become_words(void **state)
{
	static const struct good_row rows[] = {
		{ "{\"mounts\": [{\"source\": \"/srv/repo\", \"dest\": \"/repo\", \"mode\": "
		  "\"ro\"}]}",
		  "--ro /srv/repo:/repo ", "" },
		{ "{\"mounts\": [{\"mode\": \"rw\", \"source\": \"/a\"}, {\"source\": \"/b\"}]}",
		  "--rw /a --ro /b ", "" },
		{ "{\"mounts\": [{\"mode\": \"tmpfs\", \"dest\": \"/t\"},"
		  " {\"size\": \"1M\", \"dest\": \"/u\", \"mode\": \"tmpfs\"},"
		  " {\"size\": 65536, \"dest\": \"/v\", \"mode\": \"tmpfs\"}]}",
		  "--tmpfs /t --tmpfs /u:1M --tmpfs /v:65536 ", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_good("w.json", &rows[i]);
}

static void upstreams_become_words(void **state)
{
	static const struct good_row rows[] = {
		{ "{\"llm\": {\"upstream\": \"http://litellm:4000\", \"key\": \"env:K\", \"port\": "
		  "8080}}",
		  "--llm-port 8080 ", "--llm http://litellm:4000 --llm-key env:K " },
		/* What belongs to an upstream follows it, however the file has them. */
		{ "{\"llm\": [{\"provider\": \"anthropic\", \"key\": \"file:/k\","
		  " \"match\": \"claude-*\", \"upstream\": \"https://a\"},"
		  " {\"port\": \"81\", \"key\": \"env:B\", \"upstream\": \"https://b\"}]}",
		  "--llm-port 81 ",
		  "--llm claude-*=https://a --llm-key file:/k --llm-provider anthropic "
		  "--llm https://b --llm-key env:B " },
		{ "{\"llm\": {\"upstream\": \"u\", \"socket\": \"/s\", \"mode\": \"0660\","
		  " \"owner\": \"a:b\"}}",
		  "--llm-socket /s --llm-socket-mode 0660 --llm-socket-owner a:b ", "--llm u " },
		{ "{\"llm\": [{\"match\": \"/x\", \"upstream\": \"https://h/b?c=d\"}]}", "",
		  "--llm /x=https://h/b?c=d " },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_good("w.json", &rows[i]);
}

static void comments_are_spaces(void **state)
{
	static const struct good_row rows[] = {
		{ "// one\n{ /* two */ \"workspace\" /* \"x\": */ : // }\n \"/w\" } // end",
		  "--workspace /w ", "" },
		{ "{/**/\"workspace\"/***/:/* \n * // \n */\"/w\"}//", "--workspace /w ", "" },
		{ "{\"workspace\": \"/w//x/*y*/\"}", "--workspace /w//x/*y*/ ", "" },
		{ "{\"workspace\": \"/w\\\"//\"}", "--workspace /w\"// ", "" },
		{ "{\"workspace\": \"/\\\\\" /* \" */}", "--workspace /\\ ", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_good("w.json", &rows[i]);
	check_bad("{\n}\n/* {", "w.json:3: a comment has no end");
	check_bad("{} /*/", "w.json:1: a comment has no end");
	check_bad("{} /", "w.json:1: end of file expected");
	check_bad("/* \n\n */ {\n \"workspac\": 1}",
		  "w.json:4: workspac is not a known key; did you mean 'workspace'?");
}

static void paths_start_at_the_file(void **state)
{
	static const char text
		[] = "{\"workspace\": \"src\", \"upstream_ca\": \"ca.pem\", \"audit\": {\"file\": "
		     "\"a\"},"
		     " \"mounts\": [{\"source\": \"../m\", \"dest\": \"d\"}, {\"source\": \"/m\"}],"
		     " \"llm\": {\"upstream\": \"u\", \"socket\": \"s\", \"key\": \"file:k\"}}";
	static const struct good_row below = {
		text, "--workspace /etc/w/src --ro /etc/w/../m:d --ro /m --llm-socket /etc/w/s ",
		"--upstream-ca /etc/w/ca.pem --audit /etc/w/a --llm u --llm-key file:k "
	};
	static const struct good_row here = {
		text, "--workspace src --ro ../m:d --ro /m --llm-socket s ",
		"--upstream-ca ca.pem --audit a --llm u --llm-key file:k "
	};
	static const struct good_row empty = { "{\"workspace\": \"\"}", "--workspace  ", "" };

	(void)state;
	check_good("/etc/w/warder.json", &below);
	check_good("warder.json", &here);
	check_good("/etc/w/warder.json", &empty);
}

static void unknown_keys_are_guessed_at(void **state)
{
	static const struct bad_row rows[] = {
		{ "{\"limits\": {\n\"memroy\": 1}}",
		  "w.json:2: limits.memroy is not a known key; did you mean 'limits.memory'?" },
		{ "{\"memory\": 1}",
		  "w.json:1: memory is not a known key; did you mean 'limits.memory'?" },
		{ "{\"limit\": 1}", "w.json:1: limit is not a known key; did you mean 'limits'?" },
		{ "{\"zzzzzzzz\": 1}",
		  "w.json:1: zzzzzzzz is not a known key; warder.json(5) lists them" },
		{ "{\"\": 1}", "w.json:1:  is not a known key; warder.json(5) lists them" },
		{ "{\"limits.memory\": 1}",
		  "w.json:1: limits.memory is not a known key; warder.json(5) lists them" },
		{ "{\"llm\": [{\"upstream\": \"u\"},\n{\"upstrem\": \"u\"}]}",
		  "w.json:2: llm[1].upstrem is not a known key; did you mean 'llm.upstream'?" },
		{ "{\"mounts\": [{\"src\": \"/a\"}]}",
		  "w.json:1: mounts[0].src is not a known key; warder.json(5) lists them" },
		{ "{\"secret\": {}}",
		  "w.json:1: secret is not a known key; did you mean 'secrets'?" },
		{ "{\"alow\": []}", "w.json:1: alow is not a known key; did you mean 'allow'?" },
		{ "{\"secrets\": {\"A\": {\n\"host\": [\"h\"]}}}",
		  "w.json:2: secrets.A.host is not a known key; did you mean 'secrets.hosts'?" },
		{ "{\"secrets\": {\"A\": {\"inject\":\n{\"heder\": \"X\"}}}}",
		  "w.json:2: secrets.A.inject.heder is not a known key; did you mean "
		  "'inject.header'?" },
		{ "{\"\\u001b[2J\": 1}",
		  "w.json:1: ?[2J is not a known key; warder.json(5) lists them" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_bad(rows[i].text, rows[i].expected);
}

static void rules_become_words(void **state)
{
	static const struct good_row rows[] = {
		{ "{\"allow\": [\"a.test\", \"GET b.test/**\"], \"deny\": [\"POST b.test\"]}", "",
		  "--allow-net a.test --allow-net GET b.test/** --deny-net POST b.test " },
		{ "{\"allow\": [], \"deny\": [], \"secrets\": {}, \"services\": {}}", "", "" },
		{ "{\"services\": {\"litellm\": \"10.0.0.5:4000\"}, \"dns\": \"deny\"}", "",
		  "--service litellm=10.0.0.5:4000 --dns deny " },
		{ "{\"limits\": {\"egress\": \"1M\", \"egress_host\": 1000}}", "",
		  "--egress-limit 1M --egress-limit-host 1000 " },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_good("w.json", &rows[i]);
}

static void limits_become_words(void **state)
{
	static const struct good_row rows[] = {
		{ "{\"limits\": {\"requests\": \"30/m\", \"burst\": 5, \"concurrent\": 8,"
		  " \"bytes\": \"1G\", \"spend\": 0.05, \"duration\": \"8h\", \"memory\": \"2G\"}}",
		  "--memory 2G ",
		  "--limit run:requests=30/m --limit run:burst=5 --limit run:concurrent=8 "
		  "--limit run:bytes=1G --limit run:spend=0.05 --limit run:duration=8h " },
		{ "{\"account_limits\": {\"team-7\": {\"spend\": 1e-5, \"requests\": 5}, \"*\": "
		  "{\"bytes\": \"1M\"}}, \"spend_reserve\": 0.25}",
		  "",
		  "--limit account=team-7:requests=5,spend=1e-05 --limit account=*:bytes=1M "
		  "--spend-reserve 0.25 " },
		{ "{\"host_limits\": {\"*.a.test\": {\"burst\": 2, \"concurrent\": 3, "
		  "\"requests\": 0.5}, \"b.test\": {\"bytes\": \"3K\"}}}",
		  "",
		  "--limit host=*.a.test:requests=0.5,burst=2,concurrent=3 "
		  "--limit host=b.test:bytes=3K " },
		{ "{\"account_limits\": {}, \"host_limits\": {}}", "", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_good("w.json", &rows[i]);
}

static void bad_limits_are_explained(void **state)
{
	static const struct bad_row rows[] = {
		{ "{\"limits\": {\n\"requests\": true}}",
		  "w.json:2: limits.requests must be a text such as \"30/m\" or a number" },
		{ "{\"limits\": {\"spend\": \"5,bytes=1\"}}",
		  "w.json:1: limits.spend must be a number such as 2.5" },
		{ "{\"limits\": {\"reqests\": 1}}",
		  "w.json:1: limits.reqests is not a known key; did you mean 'limits.requests'?" },
		{ "{\"account_limits\": {\"a\": {\n\"spend\": \"5:spend=9\"}}}",
		  "w.json:2: account_limits.a.spend must be a number such as 100" },
		{ "{\"account_limits\": {\"a\": {\"duration\": 5}}}",
		  "w.json:1: account_limits.a.duration is not a known key; did you mean "
		  "'limits.duration'?" },
		{ "{\"account_limits\": {\n\"a\": {}}}",
		  "w.json:2: account_limits.a has no limit; an example is {\"team-7\": {\"spend\": "
		  "100}}" },
		{ "{\"account_limits\": {\"a\": 5}}",
		  "w.json:1: account_limits.a must be an object" },
		{ "{\"host_limits\": []}",
		  "w.json:1: host_limits must be an object such as {\"api.openai.com\": "
		  "{\"requests\": 20}}" },
		{ "{\"host_limits\": {\"a\": {\"concurrent\": null}}}",
		  "w.json:1: host_limits.a.concurrent must be a number such as 32" },
		{ "{\"host_limits\": {\"a\": {\"spend\": 5}}}",
		  "w.json:1: host_limits.a.spend is not a known key; did you mean "
		  "'limits.spend'?" },
		{ "{\"host_limit\": {}}",
		  "w.json:1: host_limit is not a known key; did you mean 'host_limits'?" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_bad(rows[i].text, rows[i].expected);
}

static void secrets_become_words(void **state)
{
	static const struct good_row rows[] = {
		{ "{\"secrets\": {\"A\": {\"from\": \"env:B\", \"hosts\": [\"h.test\", "
		  "\"*.i.test\"]}}}",
		  "", "--secret A=env:B@h.test,*.i.test " },
		/* What belongs to a secret follows it, however the file has them. */
		{ "{\"secrets\": {\"A\": {\"in\": [\"header\", \"body\"], \"inject\": {\"format\": "
		  "\"t "
		  "{value}\", \"header\": \"X-Key\"}, \"placeholder\": \"p-<random>\", "
		  "\"hosts\": [\"h\"], \"allow_cleartext\": true, \"allow_ip_literals\": false, "
		  "\"from\": \"file:/k\"}}}",
		  "",
		  "--secret A=file:/k@h --secret-inject A=X-Key: t {value} --secret-placeholder "
		  "A=p-<random> --secret-in A=header,body --secret-cleartext A " },
		{ "{\"secrets\": {\"A\": {\"from\": \"env:B\", \"hosts\": [\"h\"], \"inject\": "
		  "{\"header\": \"X\"}, \"allow_ip_literals\": true}}}",
		  "", "--secret A=env:B@h --secret-inject A=X: {value} --secret-ip-literals A " },
		/* A file of secrets and nothing else. */
		{ "{\"A\": {\"value\": \"sk-1\", \"hosts\": [\"h\"]}, \"B\": {\"hosts\": [\"i\"], "
		  "\"value\": \"sk-2\", \"placeholder\": \"abcdefgh\"}}",
		  "",
		  "--secret A=config:A@h --secret B=config:B@i --secret-placeholder B=abcdefgh " },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_good("w.json", &rows[i]);
}

/* The value is in no word, and is gone when it has been wiped. */
static void values_stay_apart(void **state)
{
	static const char
		text[] = "{\"secrets\": {\"A\": {\"value\": \"sk-LIVE99\", \"hosts\": "
			 "[\"h\"]}, \"B\": {\"value\": \"\\u00e9\\\"x\", \"hosts\": [\"h\"]}}}";
	struct config_file file;
	struct err err = { 0 };
	const char *value;

	(void)state;
	assert_int_equal(config_file_parse("w.json", bytes_of(text), &file, &err), 0);
	assert_int_equal(file.value_count, 2);
	assert_string_equal(file.values[0].name, "A");
	assert_string_equal(file.values[0].text, "sk-LIVE99");
	assert_string_equal(file.values[1].text, "\xc3\xa9\"x");
	check_words(&file.keeper, "--secret A=config:A@h --secret B=config:B@h ");
	check_words(&file.run, "");
	value = file.values[0].text;
	config_file_wipe_values(&file);
	assert_int_equal(file.value_count, 0);
	for (size_t i = 0; i < strlen("sk-LIVE99"); i++)
		assert_int_equal(value[i], 0);
	config_file_fini(&file);
}

static void bad_secrets_are_explained(void **state)
{
	static const struct bad_row rows[] = {
		{ "{\"secrets\": []}",
		  "w.json:1: secrets must be an object such as {\"API_KEY\": {\"from\": "
		  "\"env:API_KEY\", \"hosts\": [\"api.example.com\"]}}" },
		{ "{\"secrets\": {\n\"A\": \"sk-LIVE\"}}",
		  "w.json:2: secrets.A must be an object with a value, or a from, and hosts" },
		{ "{\"A\": {\"value\": \"x\", \"hosts\": [\"h\"]},\n\"B\": \"sk-LIVE\"}",
		  "w.json:2: B must be an object with a value, or a from, and hosts" },
		{ "{\"secrets\": {\"1A\": {}}}",
		  "w.json:1: secrets.1A: a secret's name is a variable's: letters, digits and "
		  "underscores, no digit first" },
		{ "{\"secrets\": {\"\": {}}}",
		  "w.json:1: secrets.: a secret's name is a variable's: letters, digits and "
		  "underscores, no digit first" },
		{ "{\"secrets\": {\"A\": {\"hosts\": [\"h\"]}}}",
		  "w.json:1: secrets.A needs a value or a from such as \"env:NAME\"" },
		{ "{\"secrets\": {\"A\": {\"value\": \"x\", \"from\": \"env:X\", \"hosts\": "
		  "[\"h\"]}}}",
		  "w.json:1: secrets.A: has a value and a from; one is enough" },
		{ "{\"secrets\": {\"A\": {\"hosts\": [\"h\"],\n\"value\": \"\"}}}",
		  "w.json:2: secrets.A.value is empty" },
		{ "{\"secrets\": {\"A\": {\"hosts\": [\"h\"],\n\"value\": 99}}}",
		  "w.json:2: secrets.A.value must be a text such as \"sk-...\"" },
		{ "{\"secrets\": {\"A\": {\"value\": \"x\"}}}",
		  "w.json:1: secrets.A needs hosts such as [\"api.example.com\"]" },
		{ "{\"secrets\": {\"A\": {\"value\": \"x\",\n\"hosts\": []}}}",
		  "w.json:2: secrets.A.hosts must not be empty; an example is "
		  "[\"api.example.com\", \"*.example.org\"]" },
		{ "{\"secrets\": {\"A\": {\"value\": \"x\",\n\"hosts\": \"h\"}}}",
		  "w.json:2: secrets.A.hosts must be a list such as [\"api.example.com\", "
		  "\"*.example.org\"]" },
		{ "{\"secrets\": {\"A\": {\"value\": \"x\",\n\"hosts\": [\"h\", \"\"]}}}",
		  "w.json:2: secrets.A.hosts[1] must be a text such as those in "
		  "[\"api.example.com\", \"*.example.org\"]" },
		{ "{\"secrets\": {\"A\": {\"value\": \"x\",\n\"hosts\": [\"u@h\"]}}}",
		  "w.json:2: secrets.A.hosts[0] must be a text such as those in "
		  "[\"api.example.com\", \"*.example.org\"]" },
		{ "{\"secrets\": {\"A\": {\"value\": \"x\", \"hosts\": [\"h\"],\n\"inject\": {}}}}",
		  "w.json:2: secrets.A.inject needs a header such as \"Authorization\"" },
		{ "{\"secrets\": {\"A\": {\"value\": \"x\", \"hosts\": [\"h\"],\n\"inject\": 1}}}",
		  "w.json:2: secrets.A.inject must be an object" },
		{ "{\"secrets\": {\"A\": {\"allow_cleartext\":\n\"yes\"}}}",
		  "w.json:1: secrets.A.allow_cleartext must be true or false" },
		{ "{\"allow\": \"a.test\"}",
		  "w.json:1: allow must be a list such as [\"api.openai.com\", \"GET "
		  "registry.npmjs.org/**\", \"tcp://db.internal:5432\"]" },
		{ "{\"deny\": [\"a\",\n7]}", "w.json:2: deny[1] must be a text such as those in "
					     "[\"POST api.github.com/gists\"]" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_bad(rows[i].text, rows[i].expected);
}

static void wrong_kinds_are_explained(void **state)
{
	static const struct bad_row rows[] = {
		{ "[]", "w.json:1: the file must be an object such as {}" },
		{ "{\"limits\": {\"memory\": true}}",
		  "w.json:1: limits.memory must be a text such as \"2G\" or a number" },
		{ "{\"limits\": {\"pids\": null}}",
		  "w.json:1: limits.pids must be a number such as 256" },
		{ "{\"limits\": 5}",
		  "w.json:1: limits must be an object such as {\"timeout\": \"10m\"}" },
		{ "{\"workspace\": 5}", "w.json:1: workspace must be a text such as \"src\"" },
		{ "{\"env\": [\"A=b\"]}",
		  "w.json:1: env must be an object such as {\"NAME\": \"value\"}" },
		{ "{\"env\": {\"A\": 1,\n\"B\": [1, {\"x\": \"]\"}],\n\"C\": 2}}",
		  "w.json:2: env.B must be a text or a number" },
		{ "{\"env\": {\"A=B\": 1}}", "w.json:1: env.A=B: a name cannot contain '='" },
		{ "{\"mounts\": {}}", "w.json:1: mounts must be a list such as "
				      "[{\"source\": \"/srv/repo\", \"mode\": \"ro\"}]" },
		{ "{\"mounts\": [\"/a\"]}", "w.json:1: mounts[0] must be an object" },
		{ "{\"mounts\": [{\"dest\": \"/a\"}]}",
		  "w.json:1: mounts[0] needs a source such as \"/srv/repo\"" },
		{ "{\"mounts\": [{\"source\": \"/a\",\n\"mode\": \"x\"}]}",
		  "w.json:2: mounts[0].mode must be \"ro\", \"rw\" or \"tmpfs\"" },
		{ "{\"mounts\": [{\"source\": \"/a\", \"size\": 1}]}",
		  "w.json:1: mounts[0]: only a tmpfs has a size" },
		{ "{\"mounts\": [{\"source\": \"/a\", \"dest\": \"/b\", \"mode\": \"tmpfs\"}]}",
		  "w.json:1: mounts[0]: a tmpfs has a dest and no source" },
		{ "{\"mounts\": [{\"mode\": \"tmpfs\"}]}",
		  "w.json:1: mounts[0]: a tmpfs has a dest and no source" },
		{ "{\"mounts\": [{\"source\": \"/a:b\"}]}",
		  "w.json:1: mounts[0]: a path with ':' in it cannot be mounted" },
		{ "{\"llm\": \"http://x\"}",
		  "w.json:1: llm must be an object such as {\"upstream\": "
		  "\"http://litellm:4000\"}, or a list of them" },
		{ "{\"llm\": {\"key\": \"env:X\"}}",
		  "w.json:1: llm needs an upstream such as \"http://litellm:4000\"" },
		{ "{\"llm\": [\n{\"upstream\": \"u\"},\n{\"upstream\": \"v\", \"key\":\n7}]}",
		  "w.json:3: llm[1].key must be a text such as \"env:LITELLM_MASTER_KEY\"" },
		{ "{\"llm\": [{\"upstream\": \"u\", \"port\": 1},\n{\"upstream\": "
		  "\"v\",\n\"port\": 2}]}",
		  "w.json:3: llm[1].port: another entry has a port already" },
		{ "{\"llm\": [{\"upstream\": \"u\",\n\"match\": \"a=b\"}]}",
		  "w.json:2: llm[0].match must not be empty or contain '='" },
		{ "{\"llm\": {\"upstream\": \"u\", \"match\": \"\"}}",
		  "w.json:1: llm.match must not be empty or contain '='" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_bad(rows[i].text, rows[i].expected);
}

static void syntax_errors_have_a_line(void **state)
{
	static const struct bad_row rows[] = {
		{ "", "w.json:1: the file ends too early" },
		{ "\n\n{", "w.json:3: the file ends too early" },
		{ "{\n\"env\": {\"A\": 1,\n\"A\": 2}}", "w.json:3: a key is there twice" },
		{ "{\"env\": {},\n\"env\": {}}", "w.json:2: a key is there twice" },
		{ "{\"env\"\n {}}", "w.json:2: ':' expected" },
		{ "{\"env\": {}\n\"x\"}", "w.json:2: '}' expected" },
		{ "{\"mounts\": [1 2]}", "w.json:1: ']' expected" },
		{ "{} {}", "w.json:1: end of file expected" },
		{ "{\"limits\": {\"pids\": 99999999999999999999}}",
		  "w.json:1: a number is too large" },
		{ "{\"limits\": {\"pids\": 1e999}}", "w.json:1: a number is too large" },
		{ "{\"workspace\": \"a\xff\"}", "w.json:1: not UTF-8" },
		{ "{\"workspace\": \"a\\u0000\"}", "w.json:1: not JSON" },
		{ "{\"a\\u0000b\": 1}", "w.json:1: not JSON" },
		{ "{\"workspace\": \"a\nb\"}", "w.json:1: a text has no closing quote" },
		{ "{\"workspace\": \"a\\q\"}", "w.json:1: invalid escape" },
		{ "{\"workspace\": \"a", "w.json:1: the file ends too early" },
		{ "{,}", "w.json:1: string or '}' expected" },
		{ "{\"workspace\": nope}", "w.json:1: invalid token" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_bad(rows[i].text, rows[i].expected);
}

/* Somebody pastes the key itself, and then makes any one mistake besides. */
static void no_value_is_in_an_error(void **state)
{
	static const char good[] = "{\n// keys\n\"llm\": [{\"upstream\": \"https://h\", \"key\": "
				   "\"sk-LIVE99\"}],\n\"limits\": {\"pids\": 5}, \"secrets\": "
				   "{\"A\": {\"value\": \"sk-LIVE77\",\n\"hosts\": [\"h\"]}}}";
	static const char changes[] = "\"\\{}[],:/*x1\n \x01\xff";

	(void)state;
	for (size_t at = 0; at < sizeof(good) - 1; at++)
		for (size_t i = 0; i < sizeof(changes); i++) { /* the NUL as well */
			struct config_file file;
			struct err err = { 0 };
			char text[sizeof(good)];
			size_t cut = i % 2 ? sizeof(good) - 1 : at + 1;

			memcpy(text, good, sizeof(good));
			text[at] = changes[i];
			if (config_file_parse("w.json", (struct bytes){ text, cut }, &file, &err) <
			    0)
				assert_int_equal(strncmp(err.text, "w.json:", 7), 0);
			assert_null(strstr(err.text, "LIVE"));
			assert_null(strstr(err.text, "sk-"));
			for (size_t w = 0; w < file.run.count; w++)
				assert_null(strstr(file.run.words[w], "LIVE"));
			for (size_t w = 0; w < file.keeper.count; w++)
				assert_null(strstr(file.keeper.words[w], "LIVE77"));
			config_file_fini(&file);
		}
}

/* `head`, `count` times `piece` and `tail`; the caller frees it. */
static char *repeat(const char *head, const char *piece, size_t count, const char *tail)
{
	size_t size = strlen(head) + count * strlen(piece) + strlen(tail) + 1, used;
	char *text = malloc(size);

	assert_non_null(text);
	used = (size_t)snprintf(text, size, "%s", head);
	while (count-- > 0)
		used += (size_t)snprintf(text + used, size - used, "%s", piece);
	snprintf(text + used, size - used, "%s", tail);
	return text;
}

static void check_repeat(const char *head, const char *piece, size_t count, const char *tail,
			 const char *expected)
{
	char *text = repeat(head, piece, count, tail);
	struct config_file file;
	struct err err = { 0 };
	int r = config_file_parse("w.json", bytes_of(text), &file, &err);

	assert_string_equal(err.text, expected);
	assert_int_equal(r < 0, *expected != '\0');
	config_file_fini(&file);
	free(text);
}

static void limits_are_kept(void **state)
{
	(void)state;
	check_repeat("{\"mounts\": [{\"source\": \"/a\"}", ",{\"source\":\"/a\"}", 2047, "]}", "");
	check_repeat("{\"mounts\": [{\"source\": \"/a\"}", ",{\"source\":\"/a\"}", 2048, "]}",
		     "w.json:1: mounts[2048] is one too many: a file may set 2048 options");
	check_repeat("{\"env\": ", "[", 31, "", "w.json:1: the file ends too early");
	check_repeat("{\"env\": ", "[", 32, "", "w.json:1: nested deeper than 32");
	check_repeat("{}", " ", CONFIG_FILE_MAX - 2, "", "");
	check_repeat("{}", " ", CONFIG_FILE_MAX - 1, "", "w.json is larger than 1048576 bytes");
	check_repeat("{", "[]", 300000, "}", "w.json:1: string or '}' expected");
	check_repeat("{}", "/**/", 250000, "", "");
}

/* Names as long as a file may have them do not push the message out. */
static void long_names_are_cut(void **state)
{
	char *text = repeat("{\"", "k", 5000, "\": 1}"), *name = repeat("", "n", 3000, "");
	struct config_file file;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(config_file_parse(name, bytes_of(text), &file, &err), -EINVAL);
	assert_non_null(strstr(err.text, "n:1: kkk"));
	assert_non_null(strstr(err.text, " is not a known key; warder.json(5) lists them"));
	free(text);
	free(name);
}

static void files_are_read(void **state)
{
	char path[] = "/tmp/test_file.XXXXXX";
	int fd = mkstemp(path);
	struct config_file file;
	struct err err = { 0 };

	(void)state;
	assert_true(fd >= 0);
	assert_true(write(fd, "{\"workspace\": \"w\"}", 18) == 18);
	assert_int_equal(config_file_read(path, &file, &err), 0);
	check_words(&file.run, "--workspace /tmp/w ");
	config_file_fini(&file);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(config_file_read(path, &file, &err), -EINVAL);
	assert_int_equal(ftruncate(fd, CONFIG_FILE_MAX + 4096), 0);
	assert_int_equal(config_file_read(path, &file, &err), -EFBIG);
	close(fd);
	unlink(path);
	assert_int_equal(config_file_read(path, &file, &err), -ENOENT);
	assert_non_null(strstr(err.text, path));
	assert_int_equal(config_file_read("/tmp", &file, &err), -EISDIR);
}

static int add_words(const char **argv, int argc, const struct config_words *list)
{
	for (size_t i = 0; i < list->count; i++)
		argv[argc++] = list->words[i];
	return argc;
}

/* What the run is told: its own words, then the keeper's. Both are owed a fini. */
static int parse_run(const char *text, struct config_file *file, struct run_config *config,
		     struct err *err)
{
	const char *argv[2 * CONFIG_WORDS_MAX + 4] = { "run" };
	int argc = 1;

	assert_int_equal(config_file_parse("w.json", bytes_of(text), file, err), 0);
	argc = add_words(argv, argc, &file->run);
	argc = add_words(argv, argc, &file->keeper);
	argv[argc++] = "--";
	argv[argc++] = "true";
	return run_config_parse(config, argc, (char **)argv, err);
}

/* Every key of the table's, each on the side that has its option. */
static void both_sides_know_their_options(void **state)
{
	static const char text
		[] = "{\"llm\": [{\"upstream\": \"http://h:4000\", \"key\": \"env:K\"},"
		     " {\"match\": \"claude-*\", \"upstream\": \"https://a\", \"provider\": "
		     "\"anthropic\","
		     " \"port\": 81, \"socket\": \"/s\", \"mode\": \"0600\", \"owner\": \"root\"}],"
		     " \"connect_to\": {\"h:4000\": \"127.0.0.1:1\"}, \"upstream_ca\": \"c\","
		     " \"timeouts\": {\"connect\": 1, \"first_byte\": 2, \"idle\": 3},"
		     " \"billing_account\": \"b\", \"metadata\": {\"m\": 1}, \"workspace\": \"w\","
		     " \"audit\": {\"file\": \"a\", \"durability\": \"fsync\"}}";
	const char *argv[CONFIG_WORDS_MAX + 2] = { "keeper" };
	struct keeper_config keeper;
	struct run_config config;
	struct config_file file;
	struct err err = { 0 };

	(void)state;
	if (parse_run(text, &file, &config, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(config.llm_port, 81);
	assert_string_equal(config.llm_socket.path, "/s");
	assert_int_equal(config.keeper.llm_count, 2);
	keeper_config_init(&keeper);
	if (keeper_config_parse(&keeper, add_words(argv, 1, &file.keeper), (char **)argv, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(keeper_config_check(&keeper, &err), 0);
	assert_string_equal(keeper.llms[0].key, "env:K");
	assert_null(keeper.llms[1].key);
	assert_ptr_equal(keeper.llms[1].provider, provider_find("anthropic"));
	assert_int_equal(keeper.idle_ms, 3000);
	keeper_config_fini(&keeper);
	run_config_fini(&config);
	config_file_fini(&file);
}

static void the_options_check_the_values(void **state)
{
	static const char good[] =
		"{\"workspace\": \"--\", \"cgroup\": \"none\","
		" \"env\": {\"A\": \"-b\"}, \"mounts\": [{\"source\": \"-s\", \"dest\": \"/d\"},"
		" {\"mode\": \"tmpfs\", \"dest\": \"/t\", \"size\": 8192}],"
		" \"limits\": {\"timeout\": 2.5, \"grace\": 1, \"memory\": 67108864, \"pids\": 7,"
		" \"cpu\": 1.5, \"files\": 64, \"scratch\": \"1M\", \"output\": 9}}";
	struct config_file file;
	struct run_config config;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(parse_run(good, &file, &config, &err), 0);
	assert_string_equal(config.workspace, "--");
	assert_string_equal(config.env[0], "A=-b");
	assert_string_equal(config.mounts[0].source, "-s");
	assert_int_equal(config.mounts[1].size_bytes, 8192);
	assert_int_equal(config.timeout_ms, 2500);
	assert_int_equal(config.cpu_milli, 1500);
	run_config_fini(&config);
	config_file_fini(&file);
	assert_true(parse_run("{\"limits\": {\"pids\": -5}}", &file, &config, &err) < 0);
	assert_string_equal(err.text, "--pids: '-5' is not a whole number");
	run_config_fini(&config);
	config_file_fini(&file);
}

/* Each row can be found, and its option has dashes. */
static void the_table_is_sound(void **state)
{
	(void)state;
	for (size_t i = 0; i < key_count; i++) {
		assert_ptr_equal(key_find(keys[i].group, keys[i].name), &keys[i]);
		if (keys[i].option)
			assert_int_equal(strncmp(keys[i].option, "--", 2), 0);
		assert_true(keys[i].side & (KEY_BOTH | KEY_SHARED));
	}
}

int main(void)
{
	RUN_TESTS(TEST(keys_become_words), TEST(numbers_are_written_plainly),
		  TEST(mounts_become_words), TEST(upstreams_become_words),
		  TEST(comments_are_spaces), TEST(paths_start_at_the_file),
		  TEST(unknown_keys_are_guessed_at), TEST(rules_become_words),
		  TEST(limits_become_words), TEST(bad_limits_are_explained),
		  TEST(secrets_become_words), TEST(values_stay_apart),
		  TEST(bad_secrets_are_explained), TEST(wrong_kinds_are_explained),
		  TEST(syntax_errors_have_a_line), TEST(no_value_is_in_an_error),
		  TEST(limits_are_kept), TEST(long_names_are_cut), TEST(files_are_read),
		  TEST(the_options_check_the_values), TEST(both_sides_know_their_options),
		  TEST(the_table_is_sound));
}
