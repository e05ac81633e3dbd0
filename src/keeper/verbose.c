/* SPDX-License-Identifier: MIT */
/* Requests as lines for a person. */
#include "keeper/verbose.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <termios.h>

#include "base/clock.h"
#include "base/die.h"
#include "http/path.h"

#define LABEL_MAX  200
#define METHOD_MAX 16

void verbose_open(struct exchange *exchange, const struct link_open *open)
{
	struct bytes query, path = http_path_split(open->path, &query);
	size_t method_len = open->method.len < METHOD_MAX ? open->method.len : METHOD_MAX;
	size_t path_len = path.len < LABEL_MAX ? path.len : LABEL_MAX;

	if (!exchange->peer->keeper->charter->config->verbose)
		return;
	/* Both are printable ASCII: the link has seen to that. */
	if (asprintf(&exchange->label, "%.*s %.*s", (int)method_len, open->method.data,
		     (int)path_len, path.data) < 0)
		die_no_memory();
}

/* While the run has the terminal, line ends are not completed by it. */
static const char *line_end(void)
{
	struct termios mode;

	return tcgetattr(STDERR_FILENO, &mode) == 0 && !(mode.c_oflag & OPOST) ? "\r\n" : "\n";
}

/*
 * A line of the keeper's log, where there is one. Who reads slowly, or stops the terminal, misses
 * some in either case; requests do not wait.
 */
static void print(const struct peer *peer, const struct run *run, const char *text, uint64_t now_ms)
{
	struct pollfd out = { .fd = STDERR_FILENO, .events = POLLOUT };
	char line[1200];
	int len;

	if (peer->keeper->notices) {
		keeper_notice(peer->keeper, NOTICE_REQUEST, now_ms,
			      &(struct notice){ .run_id = run ? run->run_id : NULL, .text = text });
		return;
	}
	len = snprintf(line, sizeof(line), "warder: %s%s", text, line_end());
	if (poll(&out, 1, 0) > 0 && write(STDERR_FILENO, line, (size_t)len) < 0)
		return;
}

void verbose_outcome(const struct exchange *exchange, const char *ended, const char *detail,
		     uint64_t now_ms)
{
	uint64_t time_ms = now_ms - exchange->start_ms;
	const char *host = exchange->place      ? exchange->place
			   : exchange->upstream ? exchange->upstream->label
						: "";
	char *path = exchange->label ? strchr(exchange->label, ' ') : NULL;
	char text[1024], model[JSON_EDIT_MODEL_MAX + 2] = "";

	if (!path)
		return;
	if (exchange->model[0])
		snprintf(model, sizeof(model), " %s", exchange->model);
	for (char *c = model; *c; c++)
		if (*c < 0x20 || *c > 0x7e)
			*c = '?'; /* a model's name is the agent's text: nothing for a terminal */
	snprintf(text, sizeof(text), "%.*s %s%s %d %" PRIu64 ".%03" PRIu64 " s%s%s%s%s%s",
		 (int)(path - exchange->label), exchange->label, host, path + 1, exchange->status,
		 time_ms / 1000, time_ms % 1000, model, strcmp(ended, "complete") == 0 ? "" : " ",
		 strcmp(ended, "complete") == 0 ? "" : ended, detail ? ": " : "",
		 detail ? detail : "");
	print(exchange->peer, exchange->run, text, now_ms);
}

void verbose_refused(const struct peer *peer, const struct link_refused *refused)
{
	struct bytes query, path = bytes_cut(http_path_split(refused->path, &query), LABEL_MAX);
	struct bytes method = bytes_cut(refused->method, METHOD_MAX);
	struct bytes host = bytes_cut(refused->host, LABEL_MAX);
	char text[1024];

	if (!peer->keeper->charter->config->verbose)
		return;
	snprintf(text, sizeof(text), "%.*s%s%.*s%.*s refused: %.*s", (int)method.len, method.data,
		 method.len ? " " : "", (int)host.len, host.data, (int)path.len, path.data,
		 (int)refused->code.len, refused->code.data);
	print(peer, peer->run, text, clock_now_ms());
}
