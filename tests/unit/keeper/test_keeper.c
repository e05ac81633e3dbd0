/* SPDX-License-Identifier: MIT */
/*
 * Turns of a keeper whose log cannot be written, with a gate and an origin that are sockets of the
 * test's: nothing goes out that is not on record (INV-AUDIT-FIRST). And of one whose store says
 * since when a run's time counts.
 */
#include "unit.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "keeper/keeper.h"
#include "keeper/peer.h"
#include "keeper/report.h"
#include "keeper/run_time.h"
#include "link/link.h"

#define ROOM    400 /* in the log: for any one record, and not for two */
#define HOUR_MS 3600000

static struct keeper keeper;
static struct keeper_config config;
static struct charter *charter;
static struct peer *other; /* beside the one whose requests they are, or NULL */
static char path[64], url[64];
static int gate_fd, other_fd, origin_fd;

/* What happens in the same turn, after the request was judged. */
static struct {
	struct loop_source source;
	void (*happen)(uint64_t now_ms);
	bool is_full; /* the disk, from then on */
} event;

/* Ends the loop: the request has reached the origin, or something has come back. */
static struct loop_source answers[2];

/* ---- set-up ---- */

static void watch(struct loop_source *source, int fd,
		  void (*on_ready)(struct loop_source *, unsigned int, uint64_t))
{
	*source = (struct loop_source){ .fd = -1, .on_ready = on_ready };
	assert_int_equal(loop_add(&keeper.loop, source, fd, LOOP_READ), 0);
}

static void set_room(rlim_t bytes)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static rlim_t log_size(void)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return (rlim_t)st.st_size;
}

static void on_answer(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	(void)source;
	(void)ready;
	(void)now_ms;
	set_room(RLIM_INFINITY); /* for the last words */
	loop_end(&keeper.loop);
}

static int open_peer(const char *run_id, int *ret_fd, struct peer **ret_peer)
{
	const struct run_spec spec = { .run_id = run_id };
	struct err err = { 0 };
	struct run *run = run_new(charter, &spec, &err);
	struct stream link;
	int fds[2], r;

	assert_non_null(run);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	stream_init_plain(&link, fds[0]);
	*ret_fd = fds[1];
	r = peer_open(&keeper, &link, run, PEER_LOCAL, ret_peer, &err);
	if (r < 0)
		run_free(run);
	return r;
}

static int listen_at(struct sockaddr_in *address)
{
	socklen_t len = sizeof(*address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	*address = (struct sockaddr_in){ .sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (bind(fd, (struct sockaddr *)address, len) < 0 || listen(fd, 8) < 0 ||
	    getsockname(fd, (struct sockaddr *)address, &len) < 0)
		return -1;
	return fd;
}

static void skip_what_is_said_first(int fd)
{
	char data[65536];

	assert_true(read(fd, data, sizeof(data)) > 0);
}

static int set_up(void **state)
{
	const char *argv[] = { "keeper", "--llm", url, NULL };
	struct sockaddr_in address;
	struct peer *peer;
	struct err err;
	int fd;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	snprintf(path, sizeof(path), "/tmp/warder-keeper-XXXXXX");
	fd = mkstemp(path);
	close(fd);
	origin_fd = listen_at(&address);
	if (fd < 0 || origin_fd < 0)
		return -1;
	snprintf(url, sizeof(url), "http://127.0.0.1:%u", ntohs(address.sin_port));
	keeper = (struct keeper){ .peers = NULL };
	other = NULL;
	other_fd = -1;
	keeper_config_init(&config);
	if (keeper_config_parse(&config, 3, (char **)argv, &err) < 0 ||
	    charter_new(&config, &charter, &err) < 0 || keeper_open(&keeper, charter, &err) < 0 ||
	    keeper_open_audit(&keeper, path, &err) < 0)
		return -1;
	return open_peer("asking", &gate_fd, &peer);
}

/* ---- a store that says when runs began ---- */

static struct {
	struct store store; /* first */
	enum store_verdict verdict;
	uint64_t begun_ms;
	uint64_t age_ms; /* as it was told */
} teller;

static void tell_begun(struct store *store, struct store_run *run, uint64_t now_ms)
{
	(void)store;
	run->verdict = teller.verdict;
	run->begun_ms = teller.begun_ms;
	teller.age_ms = run->age_ms;
	run->on_done(run, now_ms);
}

static void close_teller(struct store *store)
{
	(void)store;
}

/* Nobody has said yet when the run began, and an hour of it is left at most. */
static int set_up_limited(void **state)
{
	static const struct store_ops ops = { .name = "teller",
					      .open_run = tell_begun,
					      .close = close_teller };
	int r = set_up(state);

	config.run_limits.duration_ms = HOUR_MS;
	teller.store = (struct store){ .ops = &ops, .loop = &keeper.loop };
	keeper.store = &teller.store;
	if (r == 0)
		keeper.peers->run->since_ms = clock_now_ms();
	return r;
}

/* Where nothing was served the links are still there. */
static int tear_down(void **state)
{
	(void)state;
	while (keeper.peers)
		peer_close(keeper.peers, "gate_gone", clock_now_ms());
	if (loop_turn(&keeper.loop, 0) < 0)
		return -1;
	keeper_close(&keeper);
	charter_unref(charter);
	keeper_config_fini(&config);
	close(gate_fd);
	close_fd(&other_fd);
	close(origin_fd);
	return unlink(path);
}

/* ---- what happens ---- */

static void on_event(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	int fd = source->fd;

	(void)ready;
	loop_remove(&keeper.loop, source);
	close(fd);
	assert_true(keeper.has_decision); /* the request comes first */
	if (event.is_full)
		set_room(log_size() + ROOM);
	event.happen(now_ms);
}

static void nothing_happens(uint64_t now_ms)
{
	(void)now_ms;
}

static void another_begins(uint64_t now_ms)
{
	(void)now_ms;
	assert_int_equal(open_peer("another", &other_fd, &other) < 0, event.is_full);
}

static int send_nowhere(void *owner, enum status_type type, struct bytes text)
{
	(void)owner;
	(void)type;
	(void)text;
	return 0;
}

static void on_other_over(struct peer *peer, uint64_t now_ms)
{
	const struct report_sink sink = { send_nowhere, NULL };

	(void)now_ms;
	assert_int_equal(report_end(peer, path, &sink) < 0, event.is_full);
}

static void another_ends(uint64_t now_ms)
{
	peer_close(other, "gate_gone", now_ms);
}

/* What has ended before is written now, as it waits for others no longer. */
static void outcomes_are_due(uint64_t now_ms)
{
	const struct audit_end end = { .run_id = BYTES("before"), .attempt = 0 };

	audit_add_end(&keeper.audit, &end);
	keeper.audit_timer.on_due(&keeper.audit_timer, now_ms);
}

/* ---- asking ---- */

static void send_request(void)
{
	static const struct link_open open = { .method = BYTES("GET"),
					       .path = BYTES("/v1/models"),
					       .minor = 1 };
	static const struct link_end end;
	struct buf out;

	buf_init(&out, LINK_HEAD_MAX);
	link_write_open(&out, 1, &open);
	link_write_end(&out, 1, &end);
	assert_int_equal(write(gate_fd, out.data, out.len), out.len);
	buf_fini(&out);
}

/* The request and the event are ready in one turn, in this order. */
static void ask(void (*happen)(uint64_t now_ms), bool is_full)
{
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

	event.happen = happen;
	event.is_full = is_full;
	/* What is said first goes out before. */
	keeper.loop.on_turn_end = NULL;
	while (keeper.dirty_peers) {
		struct peer *peer = keeper.dirty_peers;

		keeper.dirty_peers = peer->next_dirty;
		peer->is_dirty = false;
		peer_flush(peer, clock_now_ms());
	}
	skip_what_is_said_first(gate_fd);
	watch(&event.source, fd, on_event);
	watch(&answers[0], gate_fd, on_answer);
	watch(&answers[1], origin_fd, on_answer);
	send_request();
	assert_int_equal(eventfd_write(fd, 1), 0);
	assert_int_equal(keeper_serve(&keeper), 0);
}

static bool has_reached_origin(void)
{
	int fd = accept(origin_fd, NULL, NULL);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static bool is_on_record(const char *text)
{
	char data[16384];
	FILE *file = fopen(path, "r");
	size_t len = fread(data, 1, sizeof(data) - 1, file);

	fclose(file);
	data[len] = '\0';
	return strstr(data, text) != NULL;
}

static void assert_told(const char *code)
{
	char data[16384];
	ssize_t n = read(gate_fd, data, sizeof(data));

	assert_true(n > 0 && memmem(data, (size_t)n, code, strlen(code)));
}

/* Without the event, or with room for it, the request goes out, and is on record. */
static void goes_out(void (*happen)(uint64_t now_ms))
{
	ask(happen, false);
	assert_true(has_reached_origin());
	assert_true(is_on_record("\"event\":\"decision\",\"runId\":\"asking\""));
}

static void is_refused(void (*happen)(uint64_t now_ms))
{
	ask(happen, true);
	assert_false(is_on_record("\"event\":\"decision\",\"runId\":\"asking\""));
	assert_false(has_reached_origin());
	assert_told("audit_failed");
	assert_true(keeper.metrics.audit_failures > 0);
}

/* ---- the tests ---- */

static void a_request_goes_out_when_it_is_written(void **state)
{
	(void)state;
	goes_out(nothing_happens);
}

static void a_run_begins_in_the_same_turn(void **state)
{
	(void)state;
	goes_out(another_begins);
}

static void a_run_that_cannot_begin_takes_no_record_away(void **state)
{
	(void)state;
	is_refused(another_begins);
	assert_null(other);
}

static void open_other(void)
{
	assert_int_equal(open_peer("another", &other_fd, &other), 0);
	other->on_over = on_other_over;
}

static void a_run_ends_in_the_same_turn(void **state)
{
	(void)state;
	open_other();
	goes_out(another_ends);
}

static void a_run_whose_end_cannot_be_written_takes_no_record_away(void **state)
{
	(void)state;
	open_other();
	is_refused(another_ends);
}

static void outcomes_that_are_written_in_the_same_turn(void **state)
{
	(void)state;
	goes_out(outcomes_are_due);
}

static void outcomes_that_cannot_be_written_take_no_record_away(void **state)
{
	(void)state;
	is_refused(outcomes_are_due);
}

static void answer_begun(enum store_verdict verdict, uint64_t begun_ms)
{
	teller.verdict = verdict;
	teller.begun_ms = begun_ms;
	ask(nothing_happens, false);
}

static void a_run_goes_on_when_its_beginning_is_known(void **state)
{
	(void)state;
	answer_begun(STORE_GRANTED, clock_ms(CLOCK_REALTIME));
	assert_true(has_reached_origin());
}

static void a_run_that_is_revoked_is_told_so(void **state)
{
	(void)state;
	answer_begun(STORE_IS_REVOKED, 0);
	assert_told("run_revoked");
	assert_false(has_reached_origin());
}

/* Whatever else a store, or a keeper that lends one, may say to that question. */
static void any_other_answer_is_none(void **state)
{
	for (unsigned int verdict = STORE_GRANTED; verdict <= STORE_UNREACHABLE; verdict++) {
		if (verdict == STORE_IS_REVOKED)
			continue;
		answer_begun((enum store_verdict)verdict, 0);
		assert_told("store_unreachable");
		assert_false(has_reached_origin());
		assert_int_equal(keeper.metrics.store_requests[STORE_UNREACHABLE], 1);
		assert_int_equal(tear_down(state), 0);
		assert_int_equal(set_up_limited(state), 0);
	}
}

/* Another gate was told of a later one, as when another keeper has told the store of more since. */
static void an_earlier_beginning_is_for_all_gates(void **state)
{
	uint64_t wall_ms = clock_ms(CLOCK_REALTIME), now_ms = clock_now_ms();
	struct run *run = keeper.peers->run, *late, *control;
	struct peer *peer;
	int fd;

	(void)state;
	assert_int_equal(open_peer("asking", &other_fd, &other), 0);
	assert_int_equal(open_peer("control", &fd, &peer), 0);
	late = other->run;
	control = peer->run;
	run_set_begun(late, wall_ms - HOUR_MS / 4, now_ms);
	run_set_begun(control, wall_ms - HOUR_MS / 4, now_ms);
	teller.verdict = STORE_GRANTED;
	teller.begun_ms = wall_ms - HOUR_MS / 2;
	run_time_ask(run, now_ms);
	assert_int_equal(run->begun_ms, teller.begun_ms);
	assert_int_equal(late->begun_ms, teller.begun_ms);
	assert_in_range(run_ends_ms(late) - now_ms, HOUR_MS / 2 - 60000, HOUR_MS / 2);
	assert_in_range(run_ends_ms(control) - now_ms, HOUR_MS / 2 + 60000, HOUR_MS);
	assert_int_equal(late->end_timer.due_ms, run_ends_ms(late));
	peer_close(peer, "gate_gone", now_ms);
	close(fd);
}

/* The store's clock may be ahead of ours. */
static void a_run_is_no_younger_than_it_was_seen_to_be(void **state)
{
	uint64_t now_ms = clock_now_ms() + HOUR_MS / 2; /* it was seen for so long */
	struct run *run = keeper.peers->run;

	(void)state;
	teller.verdict = STORE_GRANTED;
	teller.begun_ms = clock_ms(CLOCK_REALTIME) + HOUR_MS;
	run_time_ask(run, now_ms);
	assert_in_range(teller.age_ms, HOUR_MS / 2, HOUR_MS / 2 + 60000);
	assert_in_range(run_ends_ms(run) - now_ms, HOUR_MS / 2 - 60000, HOUR_MS / 2);
}

#define KEEPER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TIME_TEST(name)   cmocka_unit_test_setup_teardown(name, set_up_limited, tear_down)

int main(void)
{
	RUN_TESTS(KEEPER_TEST(a_request_goes_out_when_it_is_written),
		  KEEPER_TEST(a_run_begins_in_the_same_turn),
		  KEEPER_TEST(a_run_that_cannot_begin_takes_no_record_away),
		  KEEPER_TEST(a_run_ends_in_the_same_turn),
		  KEEPER_TEST(a_run_whose_end_cannot_be_written_takes_no_record_away),
		  KEEPER_TEST(outcomes_that_are_written_in_the_same_turn),
		  KEEPER_TEST(outcomes_that_cannot_be_written_take_no_record_away),
		  TIME_TEST(a_run_goes_on_when_its_beginning_is_known),
		  TIME_TEST(a_run_that_is_revoked_is_told_so), TIME_TEST(any_other_answer_is_none),
		  TIME_TEST(an_earlier_beginning_is_for_all_gates),
		  TIME_TEST(a_run_is_no_younger_than_it_was_seen_to_be));
}
