/* SPDX-License-Identifier: MIT */
/*
 * GET /spend/logs, window by window.
 *
 * LiteLLM takes dates, and tells no more than its latest ten thousand rows between two of them;
 * then it says so in a header, before the first row. Such a window is asked for again in halves.
 * A day that is still too much is read from /spend/logs/v2, which takes times, and pages.
 */
#include "keeper/spend_log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/timestamp.h"

#define DAY_S      UINT64_C(86400)
#define PAGE_SIZE  100 /* what every version of v2 allows */
#define PAGES_MAX  100 /* beyond that it tells no more */
#define TARGET_MAX 2048

struct spend_log {
	struct net *net;
	struct loop *loop;
	struct tls_client *tls;
	struct spend_log_query query;
	uint64_t start_s, end_s; /* what is still to be asked for */
	uint64_t span_s;         /* of it in one go; whole days, or less than one: by v2 */
	unsigned int page;       /* of v2 */
	bool is_too_much;        /* of what was asked for last */
	struct fetch *fetch;
	struct spend_rows *rows;
};

static void ask(struct spend_log *log, uint64_t now_ms);

static bool is_by_day(const struct spend_log *log)
{
	return log->span_s >= DAY_S;
}

/* ---- the end ---- */

void spend_log_cancel(struct spend_log *log)
{
	if (log->fetch)
		fetch_cancel(log->fetch);
	spend_rows_free(log->rows);
	free(log);
}

static void finish(struct spend_log *log, const struct err *err, uint64_t now_ms)
{
	void (*on_done)(void *owner, const struct err *err, uint64_t now_ms) = log->query.on_done;
	void *owner = log->query.owner;
	struct err copy = err ? *err : (struct err){ 0 };

	spend_log_cancel(log);
	on_done(owner, err ? &copy : NULL, now_ms);
}

/* ---- a reply ---- */

static int on_head(void *owner, const struct http_head *head, struct err *err)
{
	struct spend_log *log = owner;
	const struct http_field *field;

	if (head->status == 401 || head->status == 403)
		return err_say(err, EACCES,
			       "%s answers %d to /spend/logs: its log is for administrators, and "
			       "the key is not one's",
			       log->query.upstream->label, head->status);
	if (head->status != 200)
		return err_say(
			err, EPROTO,
			"%s answers %d to /spend/logs; LiteLLM has a spend log when it has a "
			"database",
			log->query.upstream->label, head->status);
	field = http_find_field(head, BYTES("x-litellm-spend-logs-truncated"));
	log->is_too_much = field && is_by_day(log);
	/* The rest of it need not come. */
	return log->is_too_much ? err_say(err, E2BIG, "too many rows at once") : 0;
}

static int on_data(void *owner, struct bytes data, struct err *err)
{
	struct spend_log *log = owner;

	return spend_rows_push(log->rows, data, err);
}

/* Less of it at once. */
static int narrow(struct spend_log *log, struct err *err)
{
	uint64_t days = log->span_s / DAY_S;

	log->page = 1;
	if (log->span_s <= 1)
		return err_say(err, E2BIG,
			       "%s has more calls of one second than it tells; nothing is compared",
			       log->query.upstream->label);
	log->span_s = days > 1 ? days / 2 * DAY_S : log->span_s / 2;
	return 0;
}

/* What was asked for has been read: goes on behind it. */
static int advance(struct spend_log *log, struct err *err)
{
	if (is_by_day(log)) {
		log->start_s += log->span_s;
		return 0;
	}
	if (spend_rows_count(log->rows) < PAGE_SIZE) {
		log->start_s += log->span_s;
		log->page = 1;
		return 0;
	}
	return ++log->page > PAGES_MAX ? narrow(log, err) : 0;
}

static void on_done(void *owner, const struct err *err, uint64_t now_ms)
{
	struct spend_log *log = owner;
	struct err own;
	int r = err ? -err->code : 0;

	log->fetch = NULL;
	if (err)
		own = *err;
	if (log->is_too_much)
		r = narrow(log, &own);
	else if (r == 0)
		r = spend_rows_end(log->rows, &own);
	if (r == 0 && !log->is_too_much)
		r = advance(log, &own);
	if (r < 0)
		finish(log, &own, now_ms);
	else if (log->start_s >= log->end_s)
		finish(log, NULL, now_ms);
	else
		ask(log, now_ms);
}

/* ---- a question ---- */

/* "2026-11-15", or with a space and "14:50:42" behind it. */
static void add_time(struct buf *out, const char *name, uint64_t seconds, bool has_time)
{
	char text[TIMESTAMP_TEXT_MAX];

	timestamp_format(seconds * 1000, text);
	buf_add_text(out, name);
	buf_add(out, text, strlen("2026-11-15"));
	if (has_time) {
		buf_add_text(out, "%20");
		buf_add(out, text + strlen("2026-11-15T"), strlen("14:50:42"));
	}
}

/* What need not be quoted in a query stays as it is. */
static void add_quoted(struct buf *out, const char *text)
{
	char quoted[4];

	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		snprintf(quoted, sizeof(quoted), "%%%02X", c);
		if ((c >= '0' && c <= '9') ||
		    (ascii_lower(*text) >= 'a' && ascii_lower(*text) <= 'z') || c == '-' ||
		    c == '_' || c == '.')
			buf_add(out, text, 1);
		else
			buf_add_text(out, quoted);
	}
}

/* Both ends of a window belong to it. */
static void add_window(struct buf *out, const struct spend_log *log)
{
	bool is_v2 = !is_by_day(log);

	buf_add_text(out, is_v2 ? "/spend/logs/v2" : "/spend/logs");
	add_time(out, "?start_date=", log->start_s, is_v2);
	add_time(out, "&end_date=", log->start_s + log->span_s, is_v2);
	if (!is_v2) {
		buf_add_text(out, "&summarize=false");
		return;
	}
	buf_add_text(out, "&page_size=");
	buf_add_number(out, PAGE_SIZE);
	buf_add_text(out, "&page=");
	buf_add_number(out, log->page);
}

static void ask(struct spend_log *log, uint64_t now_ms)
{
	static const struct fetch_ops ops = { on_head, on_data, on_done };
	const struct upstream *upstream = log->query.upstream;
	struct fetch_request request = {
		.is_tls = upstream->is_tls,
		.host = upstream->host,
		.authority = upstream->llm->url.authority,
		.dial_host = upstream->dial_host,
		.dial_port = upstream->dial_port,
		.key_header = upstream->llm->provider->key_header,
		.key_prefix = upstream->llm->provider->key_prefix,
		.key = upstream->key,
		.timeout_ms = log->query.timeout_ms ? log->query.timeout_ms : SPEND_LOG_TIMEOUT_MS,
		.body_max = SPEND_LOG_BODY_MAX,
	};
	struct buf target;

	buf_init(&target, TARGET_MAX);
	buf_add_text(&target, upstream->llm->url.base);
	add_window(&target, log);
	if (log->query.end_user) {
		buf_add_text(&target, "&end_user=");
		add_quoted(&target, log->query.end_user);
	}
	request.target = (struct bytes){ target.data, target.len };
	spend_rows_free(log->rows);
	log->rows = spend_rows_new(log->query.on_row, log->query.owner);
	log->is_too_much = false;
	log->fetch = fetch_start(log->net, log->loop, log->tls, &request, &ops, log, now_ms);
	buf_fini(&target);
}

/* FNV-1a: a name as long as others, whatever the URL is. */
void spend_log_name(const struct keeper_llm *llm, char ret_name[STORE_LOG_LEN + 1])
{
	uint32_t hash = UINT32_C(2166136261);

	for (const char *at = llm->url.authority; *at; at++)
		hash = (hash ^ (unsigned char)*at) * UINT32_C(16777619);
	hash = (hash ^ llm->url.is_tls) * UINT32_C(16777619);
	snprintf(ret_name, STORE_LOG_LEN + 1, ".%08" PRIx32, hash);
}

bool spend_log_is_known(const struct keeper_config *config, size_t index)
{
	const struct url *url = &config->llms[index].url;

	for (size_t i = 0; i < index; i++)
		if (config->llms[i].provider->is_litellm &&
		    strcmp(config->llms[i].url.authority, url->authority) == 0 &&
		    config->llms[i].url.is_tls == url->is_tls)
			return true;
	return false;
}

struct spend_log *spend_log_start(struct net *net, struct loop *loop, struct tls_client *tls,
				  const struct spend_log_query *query, uint64_t now_ms)
{
	struct spend_log *log = calloc(1, sizeof(*log));

	if (!log)
		die_no_memory();
	log->net = net;
	log->loop = loop;
	log->tls = tls;
	log->query = *query;
	log->start_s = query->since_s / DAY_S * DAY_S;
	log->end_s = (query->until_s / DAY_S + 1) * DAY_S;
	if (log->end_s > log->start_s + SPEND_LOG_DAYS_MAX * DAY_S)
		log->start_s = log->end_s - SPEND_LOG_DAYS_MAX * DAY_S;
	log->span_s = log->end_s - log->start_s;
	log->page = 1;
	ask(log, now_ms);
	return log;
}
