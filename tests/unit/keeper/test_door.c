/* SPDX-License-Identifier: MIT */
/* The door: whoever shows a token comes so far, whatever way it is cut; all others are sent away.
 */
#include "../tls/pair.h"

#include <fcntl.h>

#include "base/clock.h"
#include "keeper/door.h"
#include "link/link.h"

#define TURNS 200000

static struct loop loop;
static struct tls_pair pair;
static struct door *door;
static int listener_fd;

/* What became of callers. */
static struct {
	int tokens, failures;
	struct stream stream; /* of the last one */
	char token[512], from[64];
	struct err err;
	bool closes; /* the door, at once */
} seen;

static int set_up_all(void **state)
{
	(void)state;
	tls_pair_init(&pair);
	return 0;
}

static int tear_down_all(void **state)
{
	(void)state;
	tls_pair_fini(&pair);
	return 0;
}

static void on_token(struct door *at, struct stream *stream, struct bytes token, const char *from,
		     uint64_t now_ms)
{
	assert_ptr_equal(door_owner(at), &seen);
	assert_true(now_ms > 0);
	stream_close(&seen.stream);
	seen.tokens++;
	seen.stream = *stream;
	snprintf(seen.token, sizeof(seen.token), "%.*s", (int)token.len, token.data);
	snprintf(seen.from, sizeof(seen.from), "%s", from);
	if (seen.closes)
		door_close(at);
}

static void on_failed(struct door *at, const struct err *err, uint64_t now_ms)
{
	assert_true(now_ms > 0);
	seen.failures++;
	seen.err = *err;
	if (seen.closes)
		door_close(at);
}

static int set_up(void **state)
{
	static const struct door_ops ops = { on_token, on_failed };

	(void)state;
	memset(&seen, 0, sizeof(seen));
	listener_fd = listen_on_loopback(1024);
	fcntl(listener_fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(loop_init(&loop), 0);
	assert_int_equal(door_open(&loop, listener_fd, pair.service, &ops, &seen, &door), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	if (!seen.closes)
		door_close(door);
	stream_close(&seen.stream);
	loop_fini(&loop);
	return 0;
}

/* ---- a caller ---- */

static int dial(void)
{
	struct sockaddr_in address;
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(getsockname(listener_fd, (struct sockaddr *)&address, &len), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, len), 0);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

static void caller_open(struct tls_server *caller)
{
	*caller = (struct tls_server){ .fd = dial(), .ssl = SSL_new(pair.client) };
	caller->in = BIO_new(BIO_s_mem());
	caller->out = BIO_new(BIO_s_mem());
	BIO_set_mem_eof_return(caller->in, -1);
	SSL_set_bio(caller->ssl, caller->in, caller->out);
	SSL_set_connect_state(caller->ssl);
}

static void turn(struct tls_server *caller)
{
	if (caller)
		tls_server_pump(caller);
	assert_int_equal(loop_turn(&loop, 0), 0);
}

static void shake_hands(struct tls_server *caller)
{
	for (int i = 0; !SSL_is_init_finished(caller->ssl); i++) {
		assert_true(i < TURNS);
		turn(caller);
	}
}

static void run_until(struct tls_server *caller, const int *count, int wanted)
{
	for (int i = 0; *count < wanted; i++) {
		assert_true(i < TURNS);
		turn(caller);
	}
}

/* ---- tests ---- */

static void a_token_comes_through_however_it_is_cut(void **state)
{
	static const size_t steps[] = { 0, 1, 2, 3, 11, 12, 13, 100 };
	struct tls_server caller;
	struct buf out;

	(void)state;
	buf_init(&out, 4096);
	link_write_token(&out, BYTES("r-1|0|1.sig"));
	link_write_abort(&out, 9); /* is not the door's */
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		char rest[64];
		ssize_t n = -EAGAIN;
		size_t got = 0;

		caller_open(&caller);
		caller.step = steps[i];
		shake_hands(&caller);
		assert_int_equal(SSL_write(caller.ssl, out.data, (int)out.len), out.len);
		run_until(&caller, &seen.tokens, (int)i + 1);
		assert_string_equal(seen.token, "r-1|0|1.sig");
		assert_int_equal(strncmp(seen.from, "127.0.0.1:", 10), 0);
		for (int k = 0; got < LINK_HEADER_LEN && k < TURNS; k++) {
			tls_server_pump(&caller);
			n = stream_read(&seen.stream, rest + got, sizeof(rest) - got);
			got += n > 0 ? (size_t)n : 0;
		}
		assert_int_equal(got, LINK_HEADER_LEN);
		assert_memory_equal(rest, out.data + out.len - LINK_HEADER_LEN, LINK_HEADER_LEN);
		tls_server_close(&caller);
	}
	assert_int_equal(seen.failures, 0);
	assert_int_equal(door_counts(door)->callers, ARRAY_LEN(steps));
	assert_int_equal(door_counts(door)->shown, ARRAY_LEN(steps));
	buf_fini(&out);
}

static void whoever_shows_something_else_is_sent_away(void **state)
{
	static const struct {
		const char *data;
		size_t len;
		const char *words;
	} rows[] = {
		{ "\377\377\377\377\0\0\0\0\0\0\0\0", 12, "did not begin with a token" },
		{ "\7\0\0\0\1\0\0\0\0\0\0\0", 12, "did not begin with a token" },  /* ABORT */
		{ "\15\0\0\0\0\0\0\0\0\0\0\0", 12, "did not begin with a token" }, /* BYE */
		{ "\4\0\0\0\1\0\0\0\1\0\0\0x", 13, "did not begin with a token" }, /* DATA */
		{ "\2\0\0\0\1\0\0\0\0\1\1\0", 12, "did not begin with a token" },  /* OPEN */
		{ "\13\0\0\0\0\0\0\0\0\2\0\0", 12, "did not begin with a token" }, /* too long */
		{ "\13\0\0\0\0\0\0\0\7\0\0\0\1\0\2\0\0\0x", 19, "is no token" },
		{ "\13\0\0\0\0\0\0\0\7\0\0\0\1\1\1\0\0\0x", 19, "is no token" },
		{ "\13\0\0\0\0\0\0\0\7\0\0\0\1\0\1\0\0\0\n", 19, "is no token" },
		{ "\13\0\0\0\0\0\0\0\7\0\0\0\2\0\1\0\0\0x", 19, "another version" },
		{ "GET / HTTP/1.1\r\n\r\n", 18, "did not begin with a token" },
	};
	struct tls_server caller;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		caller_open(&caller);
		shake_hands(&caller);
		assert_int_equal(SSL_write(caller.ssl, rows[i].data, (int)rows[i].len),
				 rows[i].len);
		run_until(&caller, &seen.failures, (int)i + 1);
		if (!strstr(seen.err.text, rows[i].words))
			fail_msg("row %zu: '%s'", i, seen.err.text);
		assert_int_equal(strncmp(seen.err.text, "a link from 127.0.0.1:", 22), 0);
		tls_server_close(&caller);
	}
	assert_int_equal(seen.tokens, 0);
	assert_int_equal(door_counts(door)->failed, ARRAY_LEN(rows));
}

/* A keeper of another version says so, in the words that its own would understand. */
static void a_caller_that_is_turned_away_hears_why(void **state)
{
	static const char other_version[] = "\13\0\0\0\0\0\0\0\7\0\0\0\2\0\1\0\0\0x";
	struct tls_server caller;
	struct link_notice notice;
	struct link_reader reader;
	struct bytes input, payload;
	char got[1024];
	int n;

	(void)state;
	caller_open(&caller);
	shake_hands(&caller);
	SSL_write(caller.ssl, other_version, sizeof(other_version) - 1);
	run_until(&caller, &seen.failures, 1);
	for (int i = 0; (n = SSL_read(caller.ssl, got, sizeof(got))) <= 0; i++) {
		assert_true(i < TURNS);
		turn(&caller);
	}
	link_reader_init(&reader, LINK_SIDE_KEEPER);
	input = (struct bytes){ got, (size_t)n };
	assert_int_equal(link_read(&reader, &input, &payload), LINK_MESSAGE);
	assert_int_equal(link_parse_notice(payload, &notice), 0);
	assert_int_equal(notice.letter, '!');
	assert_non_null(memmem(notice.text.data, notice.text.len, "version", 7));
	link_reader_fini(&reader);
	tls_server_close(&caller);
}

static void whoever_says_nothing_is_not_waited_for(void **state)
{
	struct tls_server caller;
	int fd;

	(void)state;
	door_set_patience(door, 50);
	fd = dial();
	while (seen.failures < 1)
		assert_int_equal(loop_turn(&loop, 100), 0);
	assert_non_null(strstr(seen.err.text, "no handshake in 50 ms"));
	close(fd);
	caller_open(&caller);
	shake_hands(&caller);
	SSL_write(caller.ssl, "\13", 1);
	run_until(&caller, &seen.failures, 2);
	assert_non_null(strstr(seen.err.text, "showed no token in time"));
	tls_server_close(&caller);
	fd = dial();
	turn(NULL);
	close(fd);
	run_until(NULL, &seen.failures, 3);
	assert_non_null(strstr(seen.err.text, "closed the connection"));
}

/* INV-BOUNDED: and those who hold the places do not keep others out. */
static void many_at_once_do_not_close_the_door(void **state)
{
	int fds[DOOR_CALLERS_MAX + 50];
	struct tls_server caller;
	struct buf out;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = dial();
		turn(NULL);
	}
	for (int i = 0; door_counts(door)->callers < ARRAY_LEN(fds) && i < TURNS; i++)
		turn(NULL);
	assert_int_equal(door_counts(door)->callers, ARRAY_LEN(fds));
	assert_int_equal(seen.failures, 50);
	assert_non_null(strstr(seen.err.text, "too many at once"));
	buf_init(&out, 4096);
	link_write_token(&out, BYTES("r-1|0|1.sig"));
	caller_open(&caller);
	shake_hands(&caller);
	SSL_write(caller.ssl, out.data, (int)out.len);
	run_until(&caller, &seen.tokens, 1);
	buf_fini(&out);
	tls_server_close(&caller);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
}

static void the_door_may_be_closed_by_whoever_hears_of_it(void **state)
{
	int fds[DOOR_CALLERS_MAX + 2];

	(void)state;
	seen.closes = true;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = dial();
	for (int i = 0; seen.failures == 0 && i < TURNS; i++)
		turn(NULL);
	assert_int_equal(seen.failures, 1);
	for (int i = 0; i < 10; i++)
		turn(NULL);
	assert_int_equal(seen.failures, 1);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FRESH(a_token_comes_through_however_it_is_cut),
		FRESH(whoever_shows_something_else_is_sent_away),
		FRESH(a_caller_that_is_turned_away_hears_why),
		FRESH(whoever_says_nothing_is_not_waited_for),
		FRESH(many_at_once_do_not_close_the_door),
		FRESH(the_door_may_be_closed_by_whoever_hears_of_it),
	};

	return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
