/* SPDX-License-Identifier: MIT */
/* Descriptors of a service manager. Each case runs in a process of its own: 3 and up are its. */
#include "unit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/listen_fds.h"

/* In the child there is no cmocka to tell: it ends with the line that is wrong. */
#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                    \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* A listener that has descriptor `fd`. */
static void make_listener(int fd, int domain, int type)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX }; /* a name of the kernel's choice */
	int made = socket(domain, type, 0);

	MUST(made >= 0);
	if (domain == AF_UNIX)
		MUST(bind(made, (struct sockaddr *)&address, sizeof(sa_family_t)) == 0);
	MUST(listen(made, 1) == 0);
	MUST(made == fd || (dup2(made, fd) == fd && close(made) == 0));
	MUST(fcntl(fd, F_SETFD, 0) == 0);
}

static void announce(const char *count, const char *names)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", count, 1);
	if (names)
		setenv("LISTEN_FDNAMES", names, 1);
	else
		unsetenv("LISTEN_FDNAMES");
}

static void must_be_clean(void)
{
	MUST(!getenv("LISTEN_PID") && !getenv("LISTEN_FDS") && !getenv("LISTEN_FDNAMES"));
}

static void in_child(void (*body)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		for (int fd = LISTEN_FDS_FIRST; fd < 64; fd++)
			close(fd);
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void take_by_name(void)
{
	struct listen_fds fds;
	struct err err = { 0 };
	int control, admin, none, second;

	make_listener(3, AF_INET, SOCK_STREAM);
	make_listener(4, AF_UNIX, SOCK_SEQPACKET);
	make_listener(5, AF_UNIX, SOCK_STREAM);
	announce("3", "admin:control:admin");
	MUST(listen_fds_open(&fds, &err) == 0 && fds.count == 3);
	must_be_clean();
	for (int fd = 3; fd <= 5; fd++)
		MUST(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	MUST(listen_fds_take(&fds, "control", AF_UNIX, SOCK_SEQPACKET, &control, &err) == 0);
	MUST(control == 4 && (fcntl(4, F_GETFL) & O_NONBLOCK));
	MUST(listen_fds_take(&fds, "control", AF_UNIX, SOCK_SEQPACKET, &none, &err) == 0);
	MUST(none == -1); /* once only */
	MUST(listen_fds_take(&fds, "admin", 0, SOCK_STREAM, &admin, &err) == 0 && admin == 3);
	MUST(listen_fds_take(&fds, "admin", 0, SOCK_STREAM, &second, &err) == 0 && second == 5);
	MUST(listen_fds_take(&fds, "other", 0, SOCK_STREAM, &none, &err) == 0 && none == -1);
	MUST(!listen_fds_close(&fds));
	MUST(fcntl(3, F_GETFD) >= 0); /* what was taken stays open */
}

static void close_the_rest(void)
{
	struct listen_fds fds;
	struct err err = { 0 };
	const char *left;

	make_listener(3, AF_UNIX, SOCK_STREAM);
	make_listener(4, AF_UNIX, SOCK_STREAM);
	announce("2", NULL);
	MUST(listen_fds_open(&fds, &err) == 0 && fds.count == 2);
	left = listen_fds_close(&fds);
	MUST(left && strcmp(left, "unknown") == 0);
	MUST(fcntl(3, F_GETFD) < 0 && fcntl(4, F_GETFD) < 0);
}

/* Meant for a process that started us, and forgotten in the environment. */
static void leave_others_alone(void)
{
	struct listen_fds fds;
	struct err err = { 0 };

	make_listener(3, AF_UNIX, SOCK_STREAM);
	announce("1", "control");
	setenv("LISTEN_PID", "1", 1);
	MUST(listen_fds_open(&fds, &err) == 0 && fds.count == 0);
	must_be_clean();
	MUST(fcntl(3, F_GETFD) == 0);
	announce("1", "control"); /* the control: the same for us */
	MUST(listen_fds_open(&fds, &err) == 0 && fds.count == 1);
}

static void need_nothing(void)
{
	struct listen_fds fds;

	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	MUST(listen_fds_open(&fds, NULL) == 0 && fds.count == 0);
	setenv("LISTEN_FDS", "1", 1); /* nobody's */
	MUST(listen_fds_open(&fds, NULL) == 0 && fds.count == 0);
	announce("0", NULL);
	MUST(listen_fds_open(&fds, NULL) == 0 && fds.count == 0);
	must_be_clean();
}

static void refuse_nonsense(void)
{
	static const struct {
		const char *count, *names, *words;
	} rows[] = {
		{ "", NULL, "LISTEN_FDS" },
		{ "-1", NULL, "LISTEN_FDS" },
		{ "+1", NULL, "LISTEN_FDS" },
		{ "1 ", NULL, "LISTEN_FDS" },
		{ "01", NULL, "LISTEN_FDS" },
		{ "17", NULL, "LISTEN_FDS" },
		{ "99999999999999999999999", NULL, "LISTEN_FDS" },
		{ "2", "one", "LISTEN_FDNAMES" },
		{ "1", "one:two", "LISTEN_FDNAMES" },
		{ "2", NULL, "descriptor 4" }, /* not open */
	};
	char name[LISTEN_FDS_NAME_MAX + 1];
	struct listen_fds fds;

	make_listener(3, AF_UNIX, SOCK_STREAM);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = { 0 };

		announce(rows[i].count, rows[i].names);
		MUST(listen_fds_open(&fds, &err) < 0 && fds.count == 0);
		MUST(strstr(err.text, rows[i].words));
		must_be_clean();
	}
	memset(name, 'n', sizeof(name));
	name[LISTEN_FDS_NAME_MAX] = '\0';
	announce("1", name);
	MUST(listen_fds_open(&fds, NULL) < 0);
	announce("1", name + 1); /* the longest that there can be */
	MUST(listen_fds_open(&fds, NULL) == 0);
	announce("1", NULL);
	setenv("LISTEN_PID", "1x", 1);
	MUST(listen_fds_open(&fds, NULL) < 0);
}

static void refuse_other_sockets(void)
{
	struct listen_fds fds;
	int fd;

	make_listener(3, AF_UNIX, SOCK_STREAM);
	make_listener(4, AF_INET, SOCK_STREAM);
	MUST(socket(AF_UNIX, SOCK_SEQPACKET, 0) == 5); /* does not listen */
	MUST(open("/dev/null", O_RDONLY) == 6);
	announce("4", "stream:inet:deaf:file");
	MUST(listen_fds_open(&fds, NULL) == 0 && fds.count == 4);
	for (size_t i = 0; i < fds.count; i++) {
		struct err err = { 0 };

		MUST(listen_fds_take(&fds, fds.entries[i].name, AF_UNIX, SOCK_SEQPACKET, &fd,
				     &err) < 0);
		MUST(fd == -1 && strstr(err.text, "sequential packets"));
		MUST(strstr(err.text, fds.entries[i].name));
	}
	MUST(listen_fds_take(&fds, "stream", AF_UNIX, SOCK_STREAM, &fd, NULL) == 0 && fd == 3);
	MUST(listen_fds_take(&fds, "inet", AF_UNIX, SOCK_STREAM, &fd, NULL) < 0);
	MUST(listen_fds_take(&fds, "inet", AF_INET, SOCK_STREAM, &fd, NULL) == 0 && fd == 4);
}

static void descriptors_are_taken_by_name(void **state)
{
	(void)state;
	in_child(take_by_name);
}

static void what_nobody_takes_is_closed(void **state)
{
	(void)state;
	in_child(close_the_rest);
}

static void those_of_another_process_are_not_ours(void **state)
{
	(void)state;
	in_child(leave_others_alone);
}

static void without_a_service_manager_there_are_none(void **state)
{
	(void)state;
	in_child(need_nothing);
}

static void nonsense_is_an_error(void **state)
{
	(void)state;
	in_child(refuse_nonsense);
}

static void another_kind_of_socket_is_an_error(void **state)
{
	(void)state;
	in_child(refuse_other_sockets);
}

int main(void)
{
	RUN_TESTS(TEST(descriptors_are_taken_by_name), TEST(what_nobody_takes_is_closed),
		  TEST(those_of_another_process_are_not_ours),
		  TEST(without_a_service_manager_there_are_none), TEST(nonsense_is_an_error),
		  TEST(another_kind_of_socket_is_an_error));
}
