/* SPDX-License-Identifier: MIT */
/* The admin endpoint. From here on the bytes are a stranger's. */
#include "keeper/admin.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "http/h1_write.h"
#include "http/path.h"
#include "keeper/exposition.h"
#include "keeper/metrics.h"

#define DEAF_MS   1000
#define JSON_MAX  8192
#define REPLY_MAX (METRICS_TEXT_MAX + 1024) /* with its head */

/* How long a connection may stay in a state. */
static const uint64_t times_ms[ADMIN_STATES] = {
	[ADMIN_FRESH] = 1000, [ADMIN_IDLE] = 120000, [ADMIN_HEAD] = 5000,
	[ADMIN_REPLY] = 5000, [ADMIN_LINGER] = 1000,
};

/* ---- places ---- */

static bool is_open(const struct admin_connection *connection)
{
	return connection->state != ADMIN_FREE;
}

/* Those who wait are accepted when there is, or may be, a place for them. */
static void listen_again(struct admin *admin)
{
	if (admin->listener.fd >= 0 && !admin->deaf_timer.place &&
	    loop_change(admin->loop, &admin->listener, LOOP_READ) < 0)
		loop_remove(admin->loop, &admin->listener);
}

static void set_state(struct admin_connection *connection, enum admin_state state, uint64_t now_ms)
{
	struct admin *admin = connection->admin;

	connection->state = state;
	connection->since_ms = now_ms;
	loop_set_timer(admin->loop, &connection->timer, now_ms + times_ms[state]);
	if (state == ADMIN_IDLE)
		listen_again(admin);
}

static void close_connection(struct admin_connection *connection)
{
	struct admin *admin = connection->admin;

	loop_remove(admin->loop, &connection->source);
	loop_cancel(admin->loop, &connection->timer);
	stream_close(&connection->stream);
	h1_reader_fini(&connection->reader);
	buf_fini(&connection->in);
	buf_fini(&connection->out);
	connection->state = ADMIN_FREE;
	listen_again(admin);
}

static void on_time_over(struct loop_timer *timer, uint64_t now_ms)
{
	struct admin_connection *connection = OWNER_OF(timer, struct admin_connection, timer);

	if (connection->state == ADMIN_FRESH)
		set_state(connection, ADMIN_IDLE, now_ms);
	else
		close_connection(connection);
}

/* A free place, or the connection that is idle for the longest time; or NULL. */
static struct admin_connection *find_place(struct admin *admin)
{
	struct admin_connection *oldest = NULL;

	for (size_t i = 0; i < ADMIN_CONNECTIONS_MAX; i++) {
		struct admin_connection *connection = &admin->connections[i];

		if (!is_open(connection))
			return connection;
		if (connection->state == ADMIN_IDLE &&
		    (!oldest || connection->since_ms < oldest->since_ms))
			oldest = connection;
	}
	return oldest;
}

/* ---- replies ---- */

struct answer {
	int status;
	const char *type;
	struct buf body;
};

static void start_json(struct answer *answer, int status)
{
	answer->status = status;
	answer->type = "application/json";
	answer->body.len = 0;
}

static void answer_error(struct answer *answer, int status, const char *code, const char *message)
{
	struct json json = { .out = &answer->body };

	start_json(answer, status);
	json_open(&json, NULL, '{');
	json_open(&json, "error", '{');
	json_text(&json, "code", code);
	json_text(&json, "message", message);
	json_close(&json, '}');
	json_close(&json, '}');
}

static void answer_status(struct answer *answer, int status, const char *text)
{
	struct json json = { .out = &answer->body };

	start_json(answer, status);
	json_open(&json, NULL, '{');
	json_text(&json, "status", text);
	json_close(&json, '}');
}

static void answer_metrics(struct admin *admin, struct answer *answer)
{
	answer->status = 200;
	answer->type = EXPOSITION_TYPE;
	admin->source.metrics(admin->source.owner, &answer->body);
	if (answer->body.len == answer->body.max) /* half of it would be taken for all */
		answer_error(answer, 500, "too_large", "there are too many metrics");
}

static void answer_health(struct admin *admin, struct answer *answer)
{
	(void)admin;
	answer_status(answer, 200, "ok");
}

static void answer_readiness(struct admin *admin, struct answer *answer)
{
	struct json json = { .out = &answer->body };

	start_json(answer, 503);
	json_open(&json, NULL, '{');
	json_text(&json, "status", "not_ready");
	json_open(&json, "reasons", '{');
	if (admin->source.is_ready(admin->source.owner, &json)) {
		answer_status(answer, 200, "ready");
		return;
	}
	json_close(&json, '}');
	json_close(&json, '}');
	if (answer->body.len >= JSON_MAX)
		answer_status(answer, 503, "not_ready");
}

static const struct page {
	struct bytes path;
	void (*answer)(struct admin *admin, struct answer *answer);
} pages[] = {
	{ BYTES("/metrics"), answer_metrics },
	{ BYTES("/healthz"), answer_health },
	{ BYTES("/readyz"), answer_readiness },
};

static const struct page *find_page(struct bytes target)
{
	struct bytes query, path = http_path_split(target, &query);

	for (size_t i = 0; i < ARRAY_LEN(pages); i++)
		if (bytes_equal(path, pages[i].path))
			return &pages[i];
	return NULL;
}

static void write_reply(struct admin_connection *connection, const struct answer *answer,
			bool is_old, uint64_t now_ms)
{
	struct buf *out = &connection->out;

	h1_write_status_line(out, answer->status, h1_reason(answer->status));
	h1_write_field(out, BYTES("content-type"), bytes_of(answer->type));
	h1_write_field(out, BYTES("cache-control"), BYTES("no-store"));
	if (answer->status == 405)
		h1_write_field(out, BYTES("allow"), BYTES("GET, HEAD"));
	if (connection->is_last)
		h1_write_field(out, BYTES("connection"), BYTES("close"));
	else if (is_old)
		h1_write_field(out, BYTES("connection"), BYTES("keep-alive"));
	h1_write_framing(out, FRAMING_LENGTH, answer->body.len);
	if (!connection->is_head)
		buf_add(out, answer->body.data, answer->body.len);
	set_state(connection, ADMIN_REPLY, now_ms);
}

static void on_head(struct admin_connection *connection, const struct http_head *head,
		    uint64_t now_ms)
{
	const struct page *page = find_page(head->path);
	struct answer answer;

	connection->is_head = bytes_equal(head->method, BYTES("HEAD"));
	connection->is_last = !head->keeps_alive;
	buf_init(&answer.body, METRICS_TEXT_MAX);
	if (head->framing != FRAMING_NONE) {
		connection->is_last = true; /* what follows is no request */
		answer_error(&answer, 413, "body_refused", "a request has no body here");
	} else if (!page) {
		answer_error(&answer, 404, "not_found",
			     "there are /metrics, /healthz and /readyz here");
	} else if (!connection->is_head && !bytes_equal(head->method, BYTES("GET"))) {
		answer_error(&answer, 405, "method_not_allowed", "this can only be read");
	} else {
		page->answer(connection->admin, &answer);
	}
	write_reply(connection, &answer, head->minor == 0, now_ms);
	buf_fini(&answer.body);
}

static void refuse(struct admin_connection *connection, enum http_fault fault, uint64_t now_ms)
{
	const struct http_fault_info *info = http_fault_info(fault);
	struct answer answer;

	connection->is_head = false;
	connection->is_last = true; /* where the next request begins is anyone's guess */
	buf_init(&answer.body, JSON_MAX);
	answer_error(&answer, info->status, info->code, info->text);
	write_reply(connection, &answer, false, now_ms);
	buf_fini(&answer.body);
}

/* ---- reading ---- */

/* Reads up to the end of a head; false when there is nothing more to be read now. */
static bool step(struct admin_connection *connection, struct bytes *input, uint64_t now_ms)
{
	struct h1_result *result = &connection->admin->result;
	struct bytes part = bytes_cut(*input, ADMIN_HEAD_MAX - connection->head_len);
	size_t len = part.len;
	enum h1_event event = h1_read(&connection->reader, &part, result);

	len -= part.len;
	bytes_take(input, len);
	connection->head_len += len;
	if (event == H1_HEAD) {
		on_head(connection, &result->head, now_ms);
		h1_reader_next(&connection->reader);
		connection->head_len = 0;
	} else if (event == H1_BROKEN) {
		refuse(connection, connection->reader.fault, now_ms);
	} else if (connection->head_len == ADMIN_HEAD_MAX) {
		refuse(connection, FAULT_HEAD_LONG, now_ms);
	} else if (connection->state != ADMIN_HEAD && connection->head_len > 0) {
		set_state(connection, ADMIN_HEAD, now_ms); /* its time is not begun anew */
	}
	return connection->state != ADMIN_REPLY && input->len > 0;
}

/* Up to the next reply: the one after it is made in another turn. */
static void process(struct admin_connection *connection, struct bytes input, uint64_t now_ms)
{
	bool goes_on = input.len > 0;

	while (goes_on)
		goes_on = step(connection, &input, now_ms);
	buf_keep(&connection->in, connection->is_last ? BYTES("") : input);
}

static void read_input(struct admin_connection *connection, uint64_t now_ms)
{
	struct admin *admin = connection->admin;
	ssize_t n = stream_read(&connection->stream, admin->input, sizeof(admin->input));

	if (n == -EAGAIN)
		return;
	if (n > 0) {
		process(connection, (struct bytes){ admin->input, (size_t)n }, now_ms);
		return;
	}
	close_connection(connection); /* nothing is left to be answered: replies go first */
}

static void throw_away(struct admin_connection *connection)
{
	struct admin *admin = connection->admin;
	ssize_t n = stream_read(&connection->stream, admin->input, sizeof(admin->input));

	if (n == -EAGAIN)
		return;
	if (n <= 0 || (size_t)n >= connection->linger_left)
		close_connection(connection);
	else
		connection->linger_left -= (size_t)n;
}

/* ---- writing ---- */

/* The reply is written whole. */
static void end_reply(struct admin_connection *connection, uint64_t now_ms)
{
	buf_fini(&connection->out);
	connection->out_start = 0;
	if (!connection->is_last) {
		set_state(connection, connection->in.len ? ADMIN_HEAD : ADMIN_IDLE, now_ms);
		return;
	}
	/* Closed with something unread, the connection would be reset, and the reply lost. */
	shutdown(connection->source.fd, SHUT_WR);
	connection->linger_left = ADMIN_LINGER_MAX;
	set_state(connection, ADMIN_LINGER, now_ms);
}

static void write_output(struct admin_connection *connection, uint64_t now_ms)
{
	while (connection->out_start < connection->out.len) {
		ssize_t n = stream_write(&connection->stream,
					 connection->out.data + connection->out_start,
					 connection->out.len - connection->out_start);

		if (n == -EAGAIN)
			return;
		if (n < 0) {
			close_connection(connection);
			return;
		}
		connection->out_start += (size_t)n;
	}
	end_reply(connection, now_ms);
}

static void set_interest(struct admin_connection *connection)
{
	bool has_more = connection->in.len > 0;
	bool wants_write = connection->state == ADMIN_REPLY || has_more;

	/* Whoever does not take replies is not listened to. */
	if (loop_change(connection->admin->loop, &connection->source,
			stream_interest(&connection->stream, !wants_write, wants_write)) < 0)
		close_connection(connection);
}

static void on_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct admin_connection *connection = OWNER_OF(source, struct admin_connection, source);

	if (ready & LOOP_HANGUP)
		close_connection(connection); /* nobody is there any more */
	else if (connection->state == ADMIN_LINGER)
		throw_away(connection);
	else if (connection->in.len > 0 && connection->state != ADMIN_REPLY)
		process(connection, (struct bytes){ connection->in.data, connection->in.len },
			now_ms);
	else if (connection->state != ADMIN_REPLY)
		read_input(connection, now_ms);
	if (connection->state == ADMIN_REPLY)
		write_output(connection, now_ms);
	if (is_open(connection))
		set_interest(connection);
}

/* ---- accepting ---- */

static void welcome(struct admin *admin, struct admin_connection *connection, int fd,
		    uint64_t now_ms)
{
	*connection = (struct admin_connection){
		.admin = admin,
		.source = { .fd = -1, .on_ready = on_ready },
		.timer.on_due = on_time_over,
	};
	stream_init_plain(&connection->stream, fd);
	h1_reader_init(&connection->reader, false);
	buf_init(&connection->in, ADMIN_HEAD_MAX);
	buf_init(&connection->out, REPLY_MAX);
	set_state(connection, ADMIN_FRESH, now_ms);
	if (loop_add(admin->loop, &connection->source, fd, LOOP_READ) < 0)
		close_connection(connection);
}

static void be_deaf(struct admin *admin)
{
	if (loop_change(admin->loop, &admin->listener, 0) < 0)
		loop_remove(admin->loop, &admin->listener);
}

static void on_deaf_over(struct loop_timer *timer, uint64_t now_ms)
{
	(void)now_ms;
	listen_again(OWNER_OF(timer, struct admin, deaf_timer));
}

static bool is_out_of_room(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void on_listener(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct admin *admin = OWNER_OF(source, struct admin, listener);
	struct admin_connection *place;
	int fd;

	(void)ready;
	for (int i = 0; i < ADMIN_CONNECTIONS_MAX; i++) {
		place = find_place(admin);
		if (!place) {
			be_deaf(admin); /* until one of them has run out of time */
			return;
		}
		fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0 && is_out_of_room(errno)) {
			loop_set_timer(admin->loop, &admin->deaf_timer, now_ms + DEAF_MS);
			be_deaf(admin);
		}
		if (fd < 0)
			return;
		if (is_open(place))
			close_connection(place);
		welcome(admin, place, fd, now_ms);
	}
}

int admin_open(struct admin *admin, struct loop *loop, const struct admin_source *source,
	       int listener_fd)
{
	int r, flags = fcntl(listener_fd, F_GETFL);

	admin->loop = NULL;
	if (flags < 0 || fcntl(listener_fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	*admin = (struct admin){
		.loop = loop,
		.source = *source,
		.listener = { .fd = -1, .on_ready = on_listener },
		.deaf_timer.on_due = on_deaf_over,
	};
	r = loop_add(loop, &admin->listener, listener_fd, LOOP_READ);
	admin->listener_fd = r < 0 ? -1 : listener_fd;
	if (r < 0)
		admin->loop = NULL;
	return r;
}

void admin_close(struct admin *admin)
{
	if (!admin->loop)
		return;
	loop_cancel(admin->loop, &admin->deaf_timer);
	loop_remove(admin->loop, &admin->listener);
	for (size_t i = 0; i < ADMIN_CONNECTIONS_MAX; i++)
		if (is_open(&admin->connections[i]))
			close_connection(&admin->connections[i]);
	close_fd(&admin->listener_fd);
	admin->loop = NULL;
}
