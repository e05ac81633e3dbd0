/* SPDX-License-Identifier: MIT */
/* The control socket, with visitors who do as they please and a store that takes its time. */
#include "unit.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "keeper/control.h"
#include "sys/status.h"

static struct keeper keeper;
static struct keeper_config config;
static struct charter *charter;
static struct control *control;
static char path[64];
static struct sockaddr_un address;
static socklen_t address_len;

/* ---- the store: it answers when it is told to, or when it is closed ---- */

static struct {
	struct store store;
	struct store_revocation *revocation;
	struct store_meter *meters;
	bool is_closed;
} slow;

static void revoke_later(struct store *store, struct store_revocation *revocation, uint64_t now_ms)
{
	(void)store;
	(void)now_ms;
	slow.revocation = revocation;
}

static void read_later(struct store *store, struct store_meter *meter, uint64_t now_ms)
{
	(void)store;
	(void)now_ms;
	meter->next = slow.meters;
	slow.meters = meter;
}

static void answer(enum store_verdict verdict)
{
	struct store_revocation *revocation = slow.revocation;
	uint64_t now_ms = clock_now_ms();

	slow.revocation = NULL;
	if (revocation) {
		revocation->verdict = verdict;
		revocation->on_done(revocation, now_ms);
	}
	while (slow.meters) {
		struct store_meter *meter = slow.meters;

		slow.meters = meter->next;
		meter->verdict = verdict;
		meter->on_done(meter, now_ms);
	}
}

static void close_store(struct store *store)
{
	(void)store;
	answer(STORE_UNREACHABLE);
	slow.is_closed = true;
}

static const struct store_ops slow_ops = {
	.name = "slow",
	.revoke = revoke_later,
	.read_meter = read_later,
	.close = close_store,
};

/* ---- set-up ---- */

static int listen_somewhere(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	address_len = sizeof(address);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(sa_family_t)) < 0 ||
	    listen(fd, 64) < 0 || getsockname(fd, (struct sockaddr *)&address, &address_len) < 0)
		return -1;
	return fd;
}

static int set_up(void **state)
{
	struct control_config visit = { .listener_fd = listen_somewhere() };
	struct err err;
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "/tmp/warder-control-XXXXXX");
	fd = mkstemp(path);
	close(fd);
	if (fd < 0 || visit.listener_fd < 0)
		return -1;
	keeper = (struct keeper){ .peers = NULL };
	memset(&slow, 0, sizeof(slow));
	keeper_config_init(&config);
	if (charter_new(&config, &charter, &err) < 0 || keeper_open(&keeper, charter, &err) < 0 ||
	    keeper_open_audit(&keeper, path, &err) < 0)
		return -1;
	slow.store.ops = &slow_ops;
	keeper.store = &slow.store;
	return control_new(&keeper, &visit, &control, &err);
}

static int tear_down(void **state)
{
	(void)state;
	control_free(control);
	keeper_close(&keeper);
	charter_unref(charter);
	keeper_config_fini(&config);
	unlink(path);
	return slow.is_closed ? 0 : -1;
}

/* ---- visitors ---- */

static int visit(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, address_len), 0);
	return fd;
}

static void turn(void)
{
	for (int i = 0; i < 4; i++)
		assert_int_equal(loop_turn(&keeper.loop, 0), 0);
}

static void ask(int fd, char letter, const char *word)
{
	char packet[128];
	int len = snprintf(packet, sizeof(packet), "%c%s", letter, word);

	assert_int_equal(send(fd, packet, (size_t)len + 1, 0), len + 1);
	turn();
}

/* The letter of the next packet; '\0' where nothing has come, or nobody is there any more. */
static char told(int fd)
{
	char data[65536];

	return recv(fd, data, sizeof(data), MSG_DONTWAIT) > 0 ? data[0] : '\0';
}

/* ---- the tests ---- */

static void answers_come_when_the_store_has_them(void **state)
{
	int one = visit(), two = visit();

	(void)state;
	ask(one, CONTROL_REVOKE, "r-1");
	ask(two, CONTROL_SHOW, "r-1");
	assert_true(slow.revocation && slow.meters);
	assert_int_equal(told(one), '\0');
	answer(STORE_GRANTED);
	assert_int_equal(told(one), STATUS_DONE);
	assert_int_equal(told(two), STATUS_RUN);
	assert_int_equal(told(two), STATUS_DONE);
	close(one);
	close(two);
	turn();
}

static void a_store_that_answers_after_its_visitors_have_left(void **state)
{
	int one = visit(), two = visit();

	(void)state;
	ask(one, CONTROL_REVOKE, "r-1");
	ask(two, CONTROL_SHOW, "r-1");
	close(one);
	close(two);
	turn();
	answer(STORE_GRANTED);
	turn();
}

/* As at the end of a keeper: the control goes first, and what the store then says is for nobody. */
static void a_store_that_answers_when_there_is_no_control(void **state)
{
	int one = visit(), two = visit();

	(void)state;
	ask(one, CONTROL_REVOKE, "r-1");
	ask(two, CONTROL_SHOW, "r-1");
	assert_true(slow.revocation && slow.meters);
	control_free(control);
	control = NULL;
	answer(STORE_UNREACHABLE);
	close(one);
	close(two);
}

#define CONTROL_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	RUN_TESTS(CONTROL_TEST(answers_come_when_the_store_has_them),
		  CONTROL_TEST(a_store_that_answers_after_its_visitors_have_left),
		  CONTROL_TEST(a_store_that_answers_when_there_is_no_control));
}
