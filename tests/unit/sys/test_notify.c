/* SPDX-License-Identifier: MIT */
/* Messages to a service manager, which is played by this program. */
#include "unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "sys/notify.h"

static int manager_fd;
static char path[64];

/* `name` as NOTIFY_SOCKET has it. */
static void listen_at(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));

	memcpy(address.sun_path, name, strlen(name));
	if (name[0] == '@')
		address.sun_path[0] = '\0';
	manager_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(manager_fd >= 0);
	assert_int_equal(bind(manager_fd, (struct sockaddr *)&address, len), 0);
	assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
}

static int set_up(void **state)
{
	(void)state;
	manager_fd = -1;
	snprintf(path, sizeof(path), "/tmp/warder-test-notify.%d", (int)getpid());
	unsetenv("NOTIFY_SOCKET");
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close_fd(&manager_fd);
	unlink(path);
	return 0;
}

static void hears(const char *expected)
{
	char message[1024];
	ssize_t n = recv(manager_fd, message, sizeof(message) - 1, 0);

	assert_true(n >= 0);
	message[n] = '\0';
	assert_string_equal(message, expected);
}

static void open_it(struct notify *notify)
{
	struct err err = { 0 };

	if (notify_open(notify, &err) < 0)
		fail_msg("%s", err.text);
	assert_true(notify->fd >= 0);
	assert_null(getenv("NOTIFY_SOCKET"));
}

static void every_state_is_told(void **state)
{
	struct notify notify;

	(void)state;
	listen_at(path);
	open_it(&notify);
	notify_ready(&notify, "12 runs");
	hears("READY=1\nSTATUS=12 runs");
	notify_ready(&notify, NULL);
	hears("READY=1\n");
	notify_stopping(&notify, "draining");
	hears("STOPPING=1\nSTATUS=draining");
	notify_status(&notify, "hello");
	hears("STATUS=hello");
	notify_main_pid(&notify, 4711);
	hears("MAINPID=4711\n");
	notify_extend(&notify, 30);
	hears("EXTEND_TIMEOUT_USEC=30000000\n");
	notify_close(&notify);
}

static void a_reload_tells_when(void **state)
{
	struct notify notify;
	char message[256];
	uint64_t before_us = clock_now_ms() * 1000, time_us;
	ssize_t n;

	(void)state;
	listen_at(path);
	open_it(&notify);
	notify_reloading(&notify, "reading");
	n = recv(manager_fd, message, sizeof(message) - 1, 0);
	assert_true(n > 0);
	message[n] = '\0';
	assert_int_equal(sscanf(message, "RELOADING=1\nMONOTONIC_USEC=%" SCNu64 "\nSTATUS=reading",
				&time_us),
			 1);
	assert_non_null(strstr(message, "\nSTATUS=reading"));
	assert_true(time_us >= before_us && time_us <= (clock_now_ms() + 1) * 1000);
	notify_close(&notify);
}

static void an_abstract_name_is_a_name(void **state)
{
	struct notify notify;
	char name[64];

	(void)state;
	snprintf(name, sizeof(name), "@warder-test-notify.%d", (int)getpid());
	listen_at(name);
	open_it(&notify);
	notify_ready(&notify, NULL);
	hears("READY=1\n");
	notify_close(&notify);
}

/* A status is one line: what is in it cannot say something else to the manager. */
static void a_text_cannot_add_an_assignment(void **state)
{
	struct notify notify;
	char text[2 * NOTIFY_TEXT_MAX], expected[NOTIFY_TEXT_MAX + 32];

	(void)state;
	listen_at(path);
	open_it(&notify);
	notify_status(&notify, "a\nMAINPID=1\r\x01\x7f");
	hears("STATUS=a MAINPID=1   ");
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	notify_ready(&notify, text);
	snprintf(expected, sizeof(expected), "READY=1\nSTATUS=%.*s", NOTIFY_TEXT_MAX, text);
	hears(expected);
	notify_close(&notify);
}

static void without_a_manager_nothing_happens(void **state)
{
	struct notify notify = { .fd = 99 };

	(void)state;
	assert_int_equal(notify_open(&notify, NULL), 0);
	assert_int_equal(notify.fd, -1);
	notify_ready(&notify, "x");
	notify_reloading(&notify, NULL);
	notify_close(&notify);
	setenv("NOTIFY_SOCKET", "", 1);
	assert_int_equal(notify_open(&notify, NULL), 0);
	assert_int_equal(notify.fd, -1);
}

static void what_is_no_socket_is_an_error(void **state)
{
	char longest[200];
	const char *const names[] = { "relative",       "@",    "/", "vsock:2:1234",
				      "/nonexistent/x", longest };

	(void)state;
	memset(longest, 'a', sizeof(longest));
	longest[0] = '/';
	longest[sizeof(longest) - 1] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct notify notify;
		struct err err = { 0 };

		setenv("NOTIFY_SOCKET", names[i], 1);
		assert_true(notify_open(&notify, &err) < 0);
		assert_non_null(strstr(err.text, "NOTIFY_SOCKET"));
		assert_int_equal(notify.fd, -1);
		assert_null(getenv("NOTIFY_SOCKET"));
		notify_ready(&notify, NULL); /* goes nowhere */
	}
}

/* A manager that does not read: nobody waits for it. */
static void a_full_socket_does_not_block(void **state)
{
	struct notify notify;

	(void)state;
	listen_at(path);
	open_it(&notify);
	for (int i = 0; i < 10000; i++)
		notify_status(&notify, "again");
	hears("STATUS=again");
	close_fd(&manager_fd);
	notify_status(&notify, "nobody");
	notify_close(&notify);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	RUN_TESTS(FRESH(every_state_is_told), FRESH(a_reload_tells_when),
		  FRESH(an_abstract_name_is_a_name), FRESH(a_text_cannot_add_an_assignment),
		  FRESH(without_a_manager_nothing_happens), FRESH(what_is_no_socket_is_an_error),
		  FRESH(a_full_socket_does_not_block));
}
