/* SPDX-License-Identifier: MIT */
/* Reports to whoever started a run. */
#include "keeper/report.h"

#include <assert.h>
#include <inttypes.h>

#include "config/keeper_words.h"

#define WORDS_PACKET 32768 /* a packet must fit what a socket may hold, and a message */

static_assert(SECRET_MAX + 1024 < LINK_HEAD_MAX, "so must the longest placeholder, with its name");

static int send_text(const struct report_sink *sink, enum status_type type, const char *text)
{
	return sink->send(sink->owner, type, bytes_of(text));
}

/* In packets that are not too large. */
static int send_words(const struct report_sink *sink, const char *const *words, size_t count)
{
	struct buf packet;
	int r = 0;

	buf_init(&packet, STATUS_TEXT_MAX);
	for (size_t i = 0; r == 0 && i < count; i++) {
		buf_add(&packet, words[i], strlen(words[i]) + 1);
		if (i + 1 < count && packet.len + strlen(words[i + 1]) < WORDS_PACKET)
			continue;
		r = sink->send(sink->owner, STATUS_WORDS,
			       (struct bytes){ packet.data, packet.len });
		packet.len = 0;
	}
	buf_fini(&packet);
	return r;
}

int report_placeholders(const struct run *run, const struct report_sink *sink)
{
	const struct vault *vault = &run->terms->charter->vault;
	struct arena arena = { NULL };
	const char **words = arena_alloc(&arena, (2 * vault->count + 1) * sizeof(*words));
	int r;

	for (size_t i = 0; i < vault->count; i++) {
		words[2 * i] = "--env";
		words[2 * i + 1] = arena_printf(&arena, "%s=%s", vault->entries[i].config->name,
						run->terms->placeholders[i]);
	}
	r = send_words(sink, words, 2 * vault->count);
	arena_fini(&arena);
	return r;
}

int report_begin(const struct run *run, const struct report_sink *sink)
{
	const char **words = NULL;
	const char *identity[] = { "--run-id", run->run_id, "--attempt", NULL };
	struct arena arena = { NULL };
	size_t count = 0;
	int r;

	identity[3] = arena_printf(&arena, "%" PRIu32, run->attempt);
	r = send_words(sink, identity, ARRAY_LEN(identity));
	keeper_config_words(run->terms->charter->config, &arena, &words, &count);
	if (r == 0)
		r = send_words(sink, words, count);
	if (r == 0)
		r = report_placeholders(run, sink);
	arena_fini(&arena);
	return r < 0 ? r : send_text(sink, STATUS_READY, "");
}

int report_end(const struct peer *peer, const char *audit, const struct report_sink *sink)
{
	char summary[4200];
	struct err err;
	int r = 0;

	for (size_t i = 0; r == 0 && i < peer->refused_host_count; i++)
		r = send_text(sink, STATUS_REFUSED, peer->refused_hosts[i].name);
	/* What was recorded must be in the log before anybody is told so. */
	if (r == 0)
		r = keeper_write_records(peer->keeper, &err);
	snprintf(summary, sizeof(summary), "%" PRIu64 " %" PRIu64 " %s", peer->allowed,
		 peer->refused, audit);
	return r < 0 ? r : send_text(sink, STATUS_SUMMARY, summary);
}
