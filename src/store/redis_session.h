/* SPDX-License-Identifier: MIT */
/*
 * The keeper's session with Redis: tasks go to it over one connection after the other.
 *
 * A task is a question, sent as a script and its words, that ends when it is answered or lost.
 *
 *   down --> greeting (log in, load the scripts, say who we are) --> ready --> down
 *
 * Not ready: a task is lost at once, or, where that is its kind, owed until it is ready again. Of
 * a question that was lost on its way nobody knows whether it was answered, so what it may have
 * taken is owed back. Redis may still find lost questions in the old connection after the new one
 * has been greeted. They change nothing then: they carry the number of their connection, and
 * Redis knows the newest.
 */
#ifndef STORE_REDIS_SESSION_H
#define STORE_REDIS_SESSION_H

#include "base/buf.h"
#include "store/redis_url.h"
#include "store/redis_wire.h"
#include "store/store.h"

#define REDIS_WORDS_MAX   264
#define REDIS_NUMBERS_MAX 24
#define REDIS_DIGITS_MAX  21
#define REDIS_NAMES_MAX   (1 << 20)
#define REDIS_HASH_MAX    40

enum redis_script {
	REDIS_ALIVE,
	REDIS_LEAVE,
	REDIS_RESERVE,
	REDIS_SETTLE,
	REDIS_OPEN,
	REDIS_CLOSE,
	REDIS_REVOKE,
	REDIS_READ,
	REDIS_RECONCILE,
	REDIS_RELEASE,
	REDIS_NEWS,
	REDIS_SCRIPT_COUNT,
	REDIS_NO_SCRIPT = REDIS_SCRIPT_COUNT, /* a command of Redis' own */
};

struct redis_session {
	struct store *store; /* whose fault and is_reachable are kept here */
	struct redis_url url;
	struct redis_wire *wire;
	bool is_ready;
	bool is_loading; /* the scripts */
	uint64_t number; /* of the connection */
	char hashes[REDIS_SCRIPT_COUNT][REDIS_HASH_MAX + 1];
	uint64_t alive_ms, alive_due_ms;
	struct loop_timer alive;
	struct redis_task *owed, **owed_end;
	uint64_t revoked_before; /* the number of the last revocation when it was first ready */
	void (*on_ready)(struct redis_session *session, uint64_t now_ms); /* what is owed is sent */
	void (*on_down)(struct redis_session *session, uint64_t now_ms);
};

/* What is sent. Numbers live in it, everything else is borrowed. */
struct redis_words {
	struct bytes list[REDIS_WORDS_MAX];
	size_t count;
	char digits[REDIS_NUMBERS_MAX][REDIS_DIGITS_MAX];
	size_t number_count;
};

void redis_add_bytes(struct redis_words *words, struct bytes word);
void redis_add_text(struct redis_words *words, const char *text);
void redis_add_number(struct redis_words *words, uint64_t number);

/* Who asks, and over which connection. */
void redis_add_keeper(struct redis_words *words, const struct redis_session *session);

struct redis_task {
	struct redis_command command;
	struct redis_task *next; /* among those owed */
	struct redis_session *session;
	const struct redis_kind *kind;
	bool was_sent;
	bool is_again;          /* the scripts had to be loaded for it */
	void *request;          /* of the asker, or NULL */
	char id[RUNID_MAX + 1]; /* of a hold or a run */
	char call_id[STORE_CALL_ID_MAX + 1];
	bool is_cost_known;
	uint64_t bytes, cost;
	enum redis_script script; /* that is loaded */
	struct buf names;         /* each with its NUL; or a text */
};

struct redis_kind {
	enum redis_script script;
	bool may_fail;  /* an error is an answer, too */
	bool is_secret; /* an error may repeat what was sent */
	void (*add_words)(const struct redis_task *task, struct redis_words *words);
	/* The task is freed after either of them. */
	void (*on_answer)(struct redis_task *task, const struct redisReply *reply, uint64_t now_ms);
	/* Lost, or answered with an error. True when it is owed instead of freed. */
	bool (*on_lost)(struct redis_task *task, uint64_t now_ms);
};

/* on_ready and on_down must be set. Dials at the loop's next turn. redis_session_fini is owed. */
void redis_session_start(struct redis_session *session);

/* Loses all tasks, after which redis_session_fini forgets what is owed. */
void redis_session_stop(struct redis_session *session);
void redis_session_fini(struct redis_session *session);

struct redis_task *redis_task_new(struct redis_session *session, const struct redis_kind *kind);

/* Sends it with the next flush when Redis is ready, else it is lost at once. */
void redis_task_submit(struct redis_task *task, uint64_t now_ms);

/* Sends it when Redis is ready next, in the order of these calls. */
void redis_task_owe(struct redis_task *task);

#endif
