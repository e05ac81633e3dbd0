/* SPDX-License-Identifier: MIT */
/* Sessions with Redis: tasks, the greeting, and what Redis' errors mean. */
#include "store/redis_session.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "redis_scripts.h"

#define BURY_MANY   100 /* holds and links of keepers that are gone, at one time */
#define BURY_LAST   1000
#define ALIVE_PARTS 3 /* so often in alive_ms a keeper says that it lives */

static const char *const scripts[REDIS_SCRIPT_COUNT] = {
	[REDIS_ALIVE] = lua_alive,         [REDIS_LEAVE] = lua_leave, [REDIS_RESERVE] = lua_reserve,
	[REDIS_SETTLE] = lua_settle,       [REDIS_OPEN] = lua_open,   [REDIS_CLOSE] = lua_close,
	[REDIS_REVOKE] = lua_revoke,       [REDIS_READ] = lua_read,   [REDIS_RELEASE] = lua_release,
	[REDIS_RECONCILE] = lua_reconcile, [REDIS_NEWS] = lua_news,
};

/* ---- words ---- */

void redis_add_bytes(struct redis_words *words, struct bytes word)
{
	assert(words->count < REDIS_WORDS_MAX);
	words->list[words->count++] = word;
}

void redis_add_text(struct redis_words *words, const char *text)
{
	redis_add_bytes(words, bytes_of(text));
}

void redis_add_number(struct redis_words *words, uint64_t number)
{
	char *digits;

	assert(words->number_count < REDIS_NUMBERS_MAX);
	digits = words->digits[words->number_count++];
	snprintf(digits, REDIS_DIGITS_MAX, "%" PRIu64, number);
	redis_add_text(words, digits);
}

void redis_add_keeper(struct redis_words *words, const struct redis_session *session)
{
	redis_add_text(words, session->store->keeper_id);
	redis_add_number(words, session->number);
}

/* ---- tasks ---- */

static void on_reply(struct redis_command *command, const struct redisReply *reply,
		     uint64_t now_ms);
static void send_alive(struct redis_session *session, uint64_t now_ms);

struct redis_task *redis_task_new(struct redis_session *session, const struct redis_kind *kind)
{
	struct redis_task *task = calloc(1, sizeof(*task));

	if (!task)
		die_no_memory();
	task->session = session;
	task->kind = kind;
	task->command.on_reply = on_reply;
	buf_init(&task->names, REDIS_NAMES_MAX);
	return task;
}

static void task_free(struct redis_task *task)
{
	buf_fini(&task->names);
	free(task);
}

void redis_task_owe(struct redis_task *task)
{
	struct redis_session *session = task->session;

	task->next = NULL;
	task->is_again = false;
	*session->owed_end = task;
	session->owed_end = &task->next;
}

/* Without looking whether Redis is ready. */
static void send_task(struct redis_task *task, uint64_t now_ms)
{
	struct redis_words words;

	words.count = words.number_count = 0;
	if (task->kind->script != REDIS_NO_SCRIPT) {
		redis_add_text(&words, "EVALSHA");
		redis_add_text(&words, task->session->hashes[task->kind->script]);
		redis_add_text(&words, "0");
	}
	task->kind->add_words(task, &words);
	task->was_sent = true;
	redis_wire_send(task->session->wire, &task->command, words.list, words.count, now_ms);
}

static void lose(struct redis_task *task, uint64_t now_ms)
{
	if (task->kind->on_lost && task->kind->on_lost(task, now_ms))
		redis_task_owe(task);
	else
		task_free(task);
}

void redis_task_submit(struct redis_task *task, uint64_t now_ms)
{
	struct redis_session *session = task->session;

	if (!session->is_ready) {
		lose(task, now_ms);
		return;
	}
	/* One that was stopped for a while may count as gone: it says first that it lives. */
	if (now_ms >= session->alive_due_ms)
		send_alive(session, now_ms);
	send_task(task, now_ms);
}

/* ---- errors ---- */

static const struct {
	struct bytes code;
	const char *meaning;
} errors[] = {
	{ BYTES("OOM"), "Redis has no memory left (OOM): raise its maxmemory" },
	{ BYTES("READONLY"), "this Redis is a replica (READONLY): name the one it copies" },
	{ BYTES("LOADING"), "Redis is still reading its data (LOADING)" },
	{ BYTES("MISCONF"), "Redis cannot save its data (MISCONF): its log says why" },
	{ BYTES("NOAUTH"), "Redis wants a password (NOAUTH): put it into the URL of the store" },
	{ BYTES("WRONGPASS"), "Redis does not take the user and password of the URL (WRONGPASS)" },
	{ BYTES("NOPERM"), "Redis does not let the user of the URL do this (NOPERM): it needs "
			   "~warder:* and +@all -@dangerous" },
	{ BYTES("STALE"), "a newer connection of this keeper took over (STALE)" },
};

/* Printable, on one line; of what may repeat a secret only the first word. */
static void describe(struct bytes error, bool is_secret, char *ret_text, size_t size)
{
	struct bytes rest = error, code = error;

	bytes_split(&rest, ' ', &code);
	for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
		if (bytes_equal(code, errors[i].code)) {
			snprintf(ret_text, size, "%s", errors[i].meaning);
			return;
		}
	}
	error = bytes_cut(is_secret ? code : error, is_secret ? 20 : 160);
	snprintf(ret_text, size, "Redis answers %s with an error: %.*s",
		 is_secret ? "to user and password" : "", (int)error.len, error.data);
	for (char *c = ret_text; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}

/* ---- greeting ---- */

static void add_login(const struct redis_task *task, struct redis_words *words)
{
	redis_add_text(words, "AUTH");
	if (task->session->url.user[0])
		redis_add_text(words, task->session->url.user);
	redis_add_text(words, task->session->url.password);
}

static const struct redis_kind login = {
	.script = REDIS_NO_SCRIPT,
	.is_secret = true,
	.add_words = add_login,
};

static void add_select(const struct redis_task *task, struct redis_words *words)
{
	redis_add_text(words, "SELECT");
	redis_add_number(words, task->session->url.database);
}

static const struct redis_kind select_database = {
	.script = REDIS_NO_SCRIPT,
	.add_words = add_select,
};

static void add_info(const struct redis_task *task, struct redis_words *words)
{
	(void)task;
	redis_add_text(words, "INFO");
	redis_add_text(words, "memory");
}

/* The value of a line "name:value", or no bytes. */
static struct bytes find_line(struct bytes text, struct bytes name)
{
	struct bytes line;

	while (bytes_split(&text, '\n', &line)) {
		if (!bytes_has_prefix_nocase(line, name))
			continue;
		bytes_take(&line, name.len);
		if (line.len > 0 && line.data[line.len - 1] == '\r')
			line.len--;
		return line;
	}
	return (struct bytes){ 0 };
}

/* INV-FAIL-CLOSED: what may be thrown away was not counted. */
static void on_info(struct redis_task *task, const struct redisReply *reply, uint64_t now_ms)
{
	struct bytes text = redis_reply_text(reply, 0);
	struct bytes most = find_line(text, BYTES("maxmemory:"));
	struct bytes policy = find_line(text, BYTES("maxmemory_policy:"));

	if (policy.len > 0 && !bytes_equal(policy, BYTES("noeviction")) &&
	    !bytes_equal(most, BYTES("0")))
		redis_wire_give_up(task->session->wire,
				   "Redis may throw away what is counted when its memory is full: "
				   "set its maxmemory-policy to noeviction",
				   now_ms);
}

/* Where this user may not ask, the operator is trusted to have looked. */
static const struct redis_kind info = {
	.script = REDIS_NO_SCRIPT,
	.may_fail = true,
	.add_words = add_info,
	.on_answer = on_info,
};

static void add_load(const struct redis_task *task, struct redis_words *words)
{
	redis_add_text(words, "SCRIPT");
	redis_add_text(words, "LOAD");
	redis_add_bytes(words, (struct bytes){ task->names.data, task->names.len });
}

static void on_loaded(struct redis_task *task, const struct redisReply *reply, uint64_t now_ms)
{
	struct redis_session *session = task->session;
	struct bytes hash = bytes_cut(redis_reply_text(reply, 0), REDIS_HASH_MAX);

	memcpy(session->hashes[task->script], hash.data, hash.len);
	if (task->script + 1 < REDIS_SCRIPT_COUNT)
		return;
	session->is_loading = false;
	if (!session->is_ready)
		send_alive(session, now_ms);
}

static const struct redis_kind load = {
	.script = REDIS_NO_SCRIPT,
	.add_words = add_load,
	.on_answer = on_loaded,
};

static void load_scripts(struct redis_session *session, uint64_t now_ms)
{
	session->is_loading = true;
	for (enum redis_script script = 0; script < REDIS_SCRIPT_COUNT; script++) {
		struct redis_task *task = redis_task_new(session, &load);

		task->script = script;
		buf_add_text(&task->names, lua_common);
		buf_add_text(&task->names, scripts[script]);
		send_task(task, now_ms);
	}
}

static void become_ready(struct redis_session *session, uint64_t now_ms)
{
	struct redis_task *task = session->owed;

	session->is_ready = true;
	session->store->is_reachable = true;
	session->store->fault[0] = '\0';
	redis_wire_praise(session->wire);
	session->owed = NULL;
	session->owed_end = &session->owed;
	while (task) {
		struct redis_task *next = task->next;

		send_task(task, now_ms);
		task = next;
	}
	session->on_ready(session, now_ms);
}

static void add_alive(const struct redis_task *task, struct redis_words *words)
{
	redis_add_keeper(words, task->session);
	redis_add_number(words, task->session->alive_ms);
	redis_add_number(words, BURY_MANY);
}

static void on_alive(struct redis_task *task, const struct redisReply *reply, uint64_t now_ms)
{
	struct redis_session *session = task->session;

	if (session->revoked_before == UINT64_MAX)
		session->revoked_before = redis_reply_number(reply, 0);
	if (!session->is_ready)
		become_ready(session, now_ms);
}

static const struct redis_kind alive = {
	.script = REDIS_ALIVE,
	.add_words = add_alive,
	.on_answer = on_alive,
};

static void send_alive(struct redis_session *session, uint64_t now_ms)
{
	session->alive_due_ms = now_ms + session->alive_ms / ALIVE_PARTS;
	loop_set_timer(session->store->loop, &session->alive, session->alive_due_ms);
	send_task(redis_task_new(session, &alive), now_ms);
}

static void on_alive_due(struct loop_timer *timer, uint64_t now_ms)
{
	struct redis_session *session = OWNER_OF(timer, struct redis_session, alive);

	send_alive(session, now_ms);
	redis_wire_flush(session->wire, now_ms);
}

static void on_up(void *owner, uint64_t now_ms)
{
	struct redis_session *session = owner;

	session->number++;
	if (session->url.password[0])
		send_task(redis_task_new(session, &login), now_ms);
	if (session->url.database)
		send_task(redis_task_new(session, &select_database), now_ms);
	send_task(redis_task_new(session, &info), now_ms);
	load_scripts(session, now_ms);
}

static void on_down(void *owner, const char *why, uint64_t now_ms)
{
	struct redis_session *session = owner;

	session->is_ready = false;
	session->is_loading = false;
	session->store->is_reachable = false;
	snprintf(session->store->fault, sizeof(session->store->fault), "%s", why);
	loop_cancel(session->store->loop, &session->alive);
	session->on_down(session, now_ms);
}

/* ---- how a task ends ---- */

/* Somebody has made Redis forget the scripts; nothing was done. */
static void send_again(struct redis_task *task, uint64_t now_ms)
{
	if (!task->session->is_loading)
		load_scripts(task->session, now_ms);
	task->is_again = true;
	send_task(task, now_ms);
}

static void on_reply(struct redis_command *command, const struct redisReply *reply, uint64_t now_ms)
{
	struct redis_task *task = OWNER_OF(command, struct redis_task, command);
	struct bytes error = reply ? redis_reply_error(reply) : (struct bytes){ 0 };
	char why[sizeof(task->session->store->fault)];

	if (!reply) {
		lose(task, now_ms);
	} else if (error.len == 0 || task->kind->may_fail) {
		if (task->kind->on_answer)
			task->kind->on_answer(task, reply, now_ms);
		task_free(task);
	} else if (bytes_has_prefix_nocase(error, BYTES("NOSCRIPT")) && !task->is_again) {
		send_again(task, now_ms);
	} else {
		describe(error, task->kind->is_secret, why, sizeof(why));
		redis_wire_give_up(task->session->wire, why, now_ms);
		lose(task, now_ms);
	}
}

/* ---- begin and end ---- */

static const struct redis_wire_events events = { .on_up = on_up, .on_down = on_down };

void redis_session_start(struct redis_session *session)
{
	session->alive.on_due = on_alive_due;
	session->owed_end = &session->owed;
	session->revoked_before = UINT64_MAX;
	session->wire = redis_wire_new(session->store->loop, &session->url, &events, session);
}

static void add_leave(const struct redis_task *task, struct redis_words *words)
{
	redis_add_keeper(words, task->session);
	redis_add_number(words, BURY_LAST);
}

static const struct redis_kind leave = { .script = REDIS_LEAVE, .add_words = add_leave };

void redis_session_stop(struct redis_session *session)
{
	uint64_t now_ms = clock_now_ms(); /* no turn of the loop leads here */

	if (session->is_ready) {
		send_task(redis_task_new(session, &leave), now_ms);
		redis_wire_flush(session->wire, now_ms);
	}
	redis_wire_give_up(session->wire, "the store is closed", now_ms);
	redis_wire_free(session->wire);
}

void redis_session_fini(struct redis_session *session)
{
	while (session->owed) {
		struct redis_task *task = session->owed;

		session->owed = task->next;
		task_free(task);
	}
	explicit_bzero(&session->url, sizeof(session->url));
}
