/* SPDX-License-Identifier: MIT */
/*
 * A configuration that is read anew. Everything that can fail is done first: what cannot be read,
 * opened or found changes nothing. Then all of it counts at once.
 */
#include <string.h>

#include "cmd/shared.h"
#include "keeper/peer.h"

/* ---- what counts once ---- */

enum kind {
	ENDPOINT,
	TEXT,
	NUMBER,
};

/* What was opened at the start, and stays; each as its option is called. */
static const struct {
	const char *name;
	enum kind kind;
	size_t offset;
} standing[] = {
	{ "control", ENDPOINT, offsetof(struct shared_config, control) },
	{ "control-mode", NUMBER, offsetof(struct shared_config, control_mode) },
	{ "listen", ENDPOINT, offsetof(struct shared_config, listen) },
	{ "admin", ENDPOINT, offsetof(struct shared_config, admin) },
	{ "store", TEXT, offsetof(struct shared_config, store) },
	{ "log", TEXT, offsetof(struct shared_config, log) },
	{ "audit", TEXT, offsetof(struct shared_config, keeper.audit) },
	{ "audit-durability", TEXT, offsetof(struct shared_config, keeper.durability) },
};

static bool is_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is_same(enum kind kind, const void *a, const void *b)
{
	const struct shared_endpoint *here = a, *there = b;

	switch (kind) {
	case ENDPOINT:
		return is_same_text(here->path, there->path) &&
		       is_same_text(here->host, there->host) && here->port == there->port;
	case TEXT:
		return is_same_text(*(const char *const *)a, *(const char *const *)b);
	default:
		return *(const uint64_t *)a == *(const uint64_t *)b;
	}
}

/* It would not be seen otherwise that the file says one thing, and the keeper does another. */
static void say_what_stays(struct shared *shared, const struct shared_config *config,
			   uint64_t now_ms)
{
	const char *now = (const char *)shared->standing, *then = (const char *)config;
	char names[160] = "";
	size_t len = 0;

	for (size_t i = 0; i < ARRAY_LEN(standing); i++) {
		if (is_same(standing[i].kind, now + standing[i].offset, then + standing[i].offset))
			continue;
		snprintf(names + len, sizeof(names) - len, "%s%s", len ? ", " : "",
			 standing[i].name);
		len = strlen(names);
	}
	if (len > 0)
		shared_say(shared, NOTICE_RESTART_NEEDED, names, now_ms);
}

/* That may be meant: an empty file cuts everything off. */
void shared_say_served(struct shared *shared, enum notice_event event, const char *text,
		       uint64_t now_ms)
{
	shared_say(shared, event, text, now_ms);
	if (!shared_config_allows_any(shared_charter_config(shared->keeper.charter)))
		shared_say(shared, NOTICE_NOTHING_ALLOWED, NULL, now_ms);
}

/* ---- what changes ---- */

/* Every run has new terms for what it asks from now on. */
static void renew_runs(struct keeper *keeper, uint64_t now_ms)
{
	struct err err;

	for (struct peer *peer = keeper->peers, *next; peer; peer = next) {
		next = peer->next;
		if (peer_renew(peer, keeper->charter, now_ms, &err) < 0)
			peer_close(peer, "reload_failed", now_ms);
	}
}

/* Nothing of this can fail; what is given is taken over. */
static void change(struct shared *shared, struct charter *charter, struct tls_service *service,
		   const struct shared_users *users, uint64_t now_ms)
{
	const struct shared_config *config = shared_charter_config(charter);

	charter_unref(shared->keeper.charter);
	shared->keeper.charter = charter;
	shared_set_service(shared, service);
	shared->users = *users;
	control_set_users(shared->control, shared->users.users, shared->users.count, now_ms);
	renew_runs(&shared->keeper, now_ms);
	shared_set_reconciler(shared, config);
	shared->keeper.metrics.reloads[METRICS_RESULT_DONE]++;
	shared_say_served(shared, NOTICE_RELOADED, NULL, now_ms);
	say_what_stays(shared, config, now_ms);
	notify_ready(&shared->notify, "ready");
}

static void fail(struct shared *shared, const struct err *err, uint64_t now_ms)
{
	shared->keeper.metrics.reloads[METRICS_RESULT_FAILED]++;
	shared_say(shared, NOTICE_RELOAD_FAILED, err->text, now_ms);
	notify_ready(&shared->notify, "ready, with the configuration as it was");
}

static void on_read(void *owner, struct charter *charter, const struct err *why, uint64_t now_ms)
{
	struct shared *shared = owner;
	const struct shared_config *config = charter ? shared_charter_config(charter) : NULL;
	struct tls_service *service = NULL;
	struct shared_users users;
	struct err err;

	if (charter && (shared_list_users(config, &users, &err) < 0 ||
			shared_renew_service(shared, config, &service, &err) < 0)) {
		charter_unref(charter);
		charter = NULL;
		why = &err;
	}
	if (charter)
		change(shared, charter, service, &users, now_ms);
	else
		fail(shared, why, now_ms);
	if (shared->is_reload_asked)
		loop_set_timer(&shared->keeper.loop, &shared->reload_timer, now_ms);
}

void shared_on_reload_due(struct loop_timer *timer, uint64_t now_ms)
{
	shared_reload(OWNER_OF(timer, struct shared, reload_timer), now_ms);
}

/* Asked again while a command runs: what that prints may be of yesterday. */
void shared_reload(struct shared *shared, uint64_t now_ms)
{
	shared->is_reload_asked = shared->reading != NULL;
	if (shared->reading)
		return;
	notify_reloading(&shared->notify, "reading the configuration");
	shared_charter_start(&shared->keeper.loop, shared->argc, shared->argv, on_read, shared,
			     &shared->reading, now_ms);
}
