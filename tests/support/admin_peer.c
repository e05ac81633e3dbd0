/* SPDX-License-Identifier: MIT */
/*
 * A keeper that has nothing but its admin endpoint, until standard input ends: on the socket
 * "admin" that a service manager has opened, else on a port of its own, which it prints. Every
 * metric has another value. With an argument, it is not ready, and that is why.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "keeper/admin.h"
#include "keeper/metrics.h"
#include "keeper/notice.h"
#include "sys/listen_fds.h"
#include "sys/notify.h"

static struct loop loop;
static struct admin admin;
static struct metrics metrics;

static void give_metrics(void *owner, struct buf *out)
{
	(void)owner;
	metrics_look_at_process(&metrics);
	metrics_format(&metrics, out);
}

static bool give_readiness(void *owner, struct json *reasons)
{
	if (owner)
		json_text(reasons, "store", owner);
	return !owner;
}

/* Numbers from 1 on, in the order of the table; a histogram's sum is large enough for its counts.
 */
static void fill(void)
{
	uint64_t *numbers = (uint64_t *)(void *)&metrics;

	for (size_t i = 0; i < sizeof(metrics) / sizeof(*numbers); i++)
		numbers[i] = i + 1;
	metrics.start_time_ms = 0;
}

static int listen_here(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) < 0 || listen(fd, 16) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &len) < 0)
		return -1;
	printf("%u\n", ntohs(address.sin_port));
	fflush(stdout);
	return fd;
}

static void on_input(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	char c;

	(void)ready;
	(void)now_ms;
	if (read(source->fd, &c, 1) <= 0)
		loop_end(&loop);
}

int main(int argc, char **argv)
{
	struct admin_source source = { argc > 1 ? argv[1] : NULL, give_metrics, give_readiness };
	struct loop_source input = { .fd = -1, .on_ready = on_input };
	struct listen_fds listen_fds;
	struct notices notices;
	struct notify notify;
	struct err err = { 0 };
	int fd = -1;

	fill();
	if (listen_fds_open(&listen_fds, &err) < 0 || notify_open(&notify, &err) < 0 ||
	    listen_fds_take(&listen_fds, "admin", 0, SOCK_STREAM, &fd, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	listen_fds_close(&listen_fds);
	if (fd < 0)
		fd = listen_here();
	if (fd < 0 || loop_init(&loop) < 0 || admin_open(&admin, &loop, &source, fd) < 0 ||
	    loop_add(&loop, &input, STDIN_FILENO, LOOP_READ) < 0)
		return 1;
	notice_open(&notices, STDERR_FILENO, NOTICE_JSON);
	notice_write(&notices, NOTICE_READY, clock_now_ms(), &(struct notice){ .text = "admin" });
	notify_ready(&notify, "serving");
	if (loop_run(&loop) < 0)
		return 1;
	notify_stopping(&notify, NULL);
	notice_write(&notices, NOTICE_STOPPED, clock_now_ms(), &(struct notice){ .text = NULL });
	notice_close(&notices);
	notify_close(&notify);
	admin_close(&admin);
	loop_remove(&loop, &input);
	loop_fini(&loop);
	return 0;
}
