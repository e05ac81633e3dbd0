/* SPDX-License-Identifier: MIT */
/* The keeper that is asked for its place: what it does with whoever asks, and does not come to
 * serve. */
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "cmd/handover.h"
#include "sys/status.h"

/* How it went on, as its owner was told. */
struct place {
	struct loop loop;
	struct handover *handover;
	int asker_fd; /* the other end of the conversation */
	pid_t asker;  /* a process that has it, too, and hangs */
	int lends;    /* 1: a store; 0: there is nothing to lend; -1: it cannot now */
	int pauses, stays;
	pid_t successor;
	char why[ERR_TEXT_MAX];
};

static void on_pause(void *owner)
{
	((struct place *)owner)->pauses++;
}

static void on_stay(void *owner, const char *why, uint64_t now_ms)
{
	struct place *place = owner;

	(void)now_ms;
	place->stays++;
	snprintf(place->why, sizeof(place->why), "%s", why);
	loop_end(&place->loop);
}

static void on_leave(void *owner, pid_t successor, uint64_t now_ms)
{
	struct place *place = owner;

	(void)now_ms;
	place->successor = successor;
	loop_end(&place->loop);
}

static int lend(void *owner, int *ret_fd, struct err *err)
{
	struct place *place = owner;

	if (place->lends < 0)
		return err_say(err, EBUSY, "not now");
	if (place->lends > 0)
		*ret_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return 0;
}

static void begin(struct place *place, int lends)
{
	static const struct handover_ops ops = { on_pause, on_stay, on_leave, lend };
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC), pair[2];
	const struct handover_part part = { "control", null_fd, false };

	*place = (struct place){ .lends = lends };
	assert_int_equal(loop_init(&place->loop), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	place->asker = fork();
	if (place->asker == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		for (;;)
			pause();
	}
	place->asker_fd = pair[1];
	place->handover = handover_begin(&place->loop, pair[0], place->asker, &part, 1, &ops, place,
					 clock_now_ms());
	assert_int_equal(place->pauses, 1);
	close(null_fd);
}

/* How the one who asked has ended: 0 when it lives, and it does not any longer. */
static int finish(struct place *place)
{
	int status = 0;
	pid_t ended = waitpid(place->asker, &status, WNOHANG);

	if (ended == 0) {
		kill(place->asker, SIGTERM);
		assert_int_equal(waitpid(place->asker, NULL, 0), place->asker);
	}
	handover_free(place->handover);
	loop_fini(&place->loop);
	close_fd(&place->asker_fd);
	return ended ? status : 0;
}

/* The packets that were sent, by their first letters. */
static void expect_told(const struct place *place, const char *letters)
{
	char packet[256];

	for (; *letters; letters++) {
		ssize_t n = recv(place->asker_fd, packet, sizeof(packet) - 1, 0);

		assert_true(n > 0);
		packet[n] = '\0';
		assert_int_equal(packet[0], *letters);
		if (*letters == STATUS_FAILED)
			assert_string_equal(packet + 1, "not now");
	}
}

static void who_serves_has_the_place(void **state)
{
	struct place place;

	(void)state;
	begin(&place, 1);
	expect_told(&place, "LL.");
	assert_int_equal(status_send(place.asker_fd, STATUS_GO, ""), 0);
	assert_int_equal(loop_run(&place.loop), 0);
	assert_int_equal(place.successor, place.asker);
	assert_int_equal(place.stays, 0);
	assert_int_equal(finish(&place), 0);
}

static void who_ends_does_not(void **state)
{
	struct place place;

	(void)state;
	begin(&place, 1);
	kill(place.asker, SIGKILL);
	close_fd(&place.asker_fd);
	assert_int_equal(loop_run(&place.loop), 0);
	assert_int_equal(place.stays, 1);
	assert_int_equal(place.successor, 0);
	assert_non_null(strstr(place.why, "has ended"));
	finish(&place);
}

static void who_cannot_have_it_is_told_why(void **state)
{
	struct place place;

	(void)state;
	begin(&place, -1);
	assert_null(place.handover);
	assert_int_equal(place.stays, 1);
	assert_string_equal(place.why, "not now");
	expect_told(&place, "L!");
	assert_int_equal(recv(place.asker_fd, &(char){ 0 }, 1, 0), 0);
	assert_int_equal(finish(&place), 0);
}

/* Waits for what hangs; a GO that comes after that finds nobody. */
static void lose_patience(struct place *place)
{
	handover_set_patience(place->handover, clock_now_ms() + 20);
	assert_int_equal(loop_run(&place->loop), 0);
	assert_int_equal(place->stays, 1);
	assert_int_equal(place->successor, 0);
	assert_non_null(strstr(place->why, "in time"));
	assert_int_equal(status_send(place->asker_fd, STATUS_GO, ""), -EPIPE);
}

static void who_hangs_with_nothing_is_left_alone(void **state)
{
	struct place place;

	(void)state;
	begin(&place, 0);
	lose_patience(&place);
	assert_int_equal(finish(&place), 0);
}

static void who_hangs_with_the_store_is_killed(void **state)
{
	struct place place;
	siginfo_t info;

	(void)state;
	begin(&place, 1);
	lose_patience(&place);
	assert_int_equal(waitid(P_PID, (id_t)place.asker, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(finish(&place), SIGKILL);
}

static void who_has_gone_already_does_not(void **state)
{
	static const struct handover_ops ops = { on_pause, on_stay, on_leave, lend };
	struct place place = { .lends = 1 };
	int pair[2];

	(void)state;
	assert_int_equal(loop_init(&place.loop), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	close(pair[1]);
	place.handover = handover_begin(&place.loop, pair[0], getpid(), NULL, 0, &ops, &place,
					clock_now_ms());
	assert_null(place.handover);
	assert_int_equal(place.stays, 1);
	loop_fini(&place.loop);
}

int main(void)
{
	RUN_TESTS(TEST(who_serves_has_the_place), TEST(who_ends_does_not),
		  TEST(who_cannot_have_it_is_told_why), TEST(who_hangs_with_nothing_is_left_alone),
		  TEST(who_hangs_with_the_store_is_killed), TEST(who_has_gone_already_does_not));
}
