/* SPDX-License-Identifier: MIT */
/*
 * c-ares on the event loop.
 *
 * c-ares says which of its sockets it wants to hear of (on_socket_state), is called when one of
 * them is ready or its time is up, and calls back from there. After every call its next
 * timeout may be another one, so the timer is set anew.
 */
#include "net/dns.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/die.h"

#define CONFIG_FILE "/etc/resolv.conf"

/* Doubled for each further round of the servers. Whoever waits has a deadline of its own. */
#define TIMEOUT_MS      2000
#define TRIES           3
#define TEST_TIMEOUT_MS 100
#define TEST_TRIES      2

struct dns_socket {
	struct loop_source source;
	struct dns *dns;
	struct dns_socket *next;
};

void dns_init(struct dns *dns, struct loop *loop)
{
	*dns = (struct dns){ .loop = loop };
}

/* ---- time ---- */

static bool is_idle(struct dns *dns)
{
	struct timeval left;

	return !ares_timeout(dns->channel, NULL, &left);
}

static void set_timer(struct dns *dns)
{
	struct timeval left;

	if (!ares_timeout(dns->channel, NULL, &left)) {
		loop_cancel(dns->loop, &dns->timer);
		return;
	}
	/* Rounded up: a turn too early would find nothing to do, and be followed by another. */
	loop_set_timer(dns->loop, &dns->timer,
		       dns->now_ms + (uint64_t)left.tv_sec * 1000 + (uint64_t)left.tv_usec / 1000 +
			       1);
}

static void process(struct dns *dns, ares_socket_t readable, ares_socket_t writable,
		    uint64_t now_ms)
{
	dns->now_ms = now_ms;
	ares_process_fd(dns->channel, readable, writable);
	set_timer(dns);
}

static void on_due(struct loop_timer *timer, uint64_t now_ms)
{
	process(OWNER_OF(timer, struct dns, timer), ARES_SOCKET_BAD, ARES_SOCKET_BAD, now_ms);
}

/* ---- sockets ---- */

static void on_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct dns_socket *found = OWNER_OF(source, struct dns_socket, source);
	int fd = source->fd;

	/* May free `found`. */
	process(found->dns, ready & LOOP_READ ? fd : ARES_SOCKET_BAD,
		ready & LOOP_WRITE ? fd : ARES_SOCKET_BAD, now_ms);
}

static void forget_socket(struct dns *dns, struct dns_socket **at)
{
	struct dns_socket *gone = *at;

	*at = gone->next;
	loop_remove(dns->loop, &gone->source);
	free(gone);
}

static void watch_socket(struct dns *dns, ares_socket_t fd, unsigned int interest)
{
	struct dns_socket *added = calloc(1, sizeof(*added));

	if (!added)
		die_no_memory();
	added->dns = dns;
	added->source.on_ready = on_ready;
	added->next = dns->sockets;
	dns->sockets = added;
	/* One that cannot be watched is a server that does not answer: the timer sees to it. */
	if (loop_add(dns->loop, &added->source, fd, interest) < 0)
		forget_socket(dns, &dns->sockets);
}

/* Told that `fd` is about to be closed, with neither, or what c-ares waits for. */
static void on_socket_state(void *data, ares_socket_t fd, int wants_read, int wants_write)
{
	struct dns *dns = data;
	struct dns_socket **at = &dns->sockets;
	unsigned int interest = (wants_read ? LOOP_READ : 0) | (wants_write ? LOOP_WRITE : 0);

	while (*at && (*at)->source.fd != fd)
		at = &(*at)->next;
	if (!*at && interest)
		watch_socket(dns, fd, interest);
	else if (*at && (!interest || loop_change(dns->loop, &(*at)->source, interest) < 0))
		forget_socket(dns, at);
}

/*
 * The system calls, for the sake of one: c-ares writes to a TCP server with writev, which raises
 * SIGPIPE when that has gone.
 */

static ares_socket_t on_socket(int family, int type, int protocol, void *data)
{
	(void)data;
	return socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
}

static int on_close(ares_socket_t fd, void *data)
{
	(void)data;
	return close(fd);
}

static int on_connect(ares_socket_t fd, const struct sockaddr *address, ares_socklen_t len,
		      void *data)
{
	(void)data;
	return connect(fd, address, len);
}

static ares_ssize_t on_receive(ares_socket_t fd, void *bytes, size_t len, int flags,
			       struct sockaddr *from, ares_socklen_t *from_len, void *data)
{
	(void)data;
	return recvfrom(fd, bytes, len, flags, from, from_len);
}

static ares_ssize_t on_send(ares_socket_t fd, const struct iovec *parts, int count, void *data)
{
	struct msghdr message = { .msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count };

	(void)data;
	return sendmsg(fd, &message, MSG_NOSIGNAL);
}

static const struct ares_socket_functions socket_functions = {
	on_socket, on_close, on_connect, on_receive, on_send,
};

/* ---- the channel ---- */

static void close_channel(struct dns *dns)
{
	if (!dns->channel)
		return;
	/* c-ares 1.18 uses what it has freed when a channel with open questions is destroyed. */
	ares_cancel(dns->channel);
	ares_destroy(dns->channel);
	dns->channel = NULL;
	loop_cancel(dns->loop, &dns->timer);
}

static bool has_changed(struct dns *dns)
{
	struct stat status = { 0 };
	struct timespec was = dns->config_time;

	/* Without the file the time is 0, as good as any other. */
	if (stat(CONFIG_FILE, &status) < 0)
		status.st_mtim = (struct timespec){ 0 };
	dns->config_time = status.st_mtim;
	return was.tv_sec != status.st_mtim.tv_sec || was.tv_nsec != status.st_mtim.tv_nsec;
}

/*
 * A machine that has moved to another network has other servers: they are read anew when the
 * file has changed, and nobody is waiting for the old ones.
 */
static int open_channel(struct dns *dns)
{
	static char dns_only[] = "b"; /* the hosts file is looked at before */
	struct ares_options options = {
		.flags = dns->servers || dns->has_no_search ? ARES_FLAG_NOSEARCH : 0,
		.timeout = dns->servers ? TEST_TIMEOUT_MS : TIMEOUT_MS,
		.tries = dns->servers ? TEST_TRIES : TRIES,
		.lookups = dns_only,
		.sock_state_cb = on_socket_state,
		.sock_state_cb_data = dns,
	};
	int status;

	if (dns->channel && (!is_idle(dns) || !has_changed(dns)))
		return ARES_SUCCESS;
	close_channel(dns);
	has_changed(dns);
	dns->timer.on_due = on_due;
	status = ares_init_options(&dns->channel, &options,
				   ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
					   ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB);
	if (status == ARES_ENOMEM)
		die_no_memory();
	if (status != ARES_SUCCESS) {
		dns->channel = NULL;
		return status;
	}
	ares_set_socket_functions(dns->channel, &socket_functions, dns);
	if (dns->servers)
		status = ares_set_servers_ports_csv(dns->channel, dns->servers);
	if (status != ARES_SUCCESS)
		close_channel(dns);
	return status;
}

void dns_fini(struct dns *dns)
{
	close_channel(dns);
	while (dns->sockets)
		forget_socket(dns, &dns->sockets);
	free(dns->servers);
}

void dns_set_servers(struct dns *dns, const char *servers)
{
	close_channel(dns);
	free(dns->servers);
	dns->servers = strdup(servers);
	if (!dns->servers)
		die_no_memory();
}

void dns_ask(struct dns *dns, const char *name, int family, ares_addrinfo_callback callback,
	     void *arg, uint64_t now_ms)
{
	/* The server's order stays: it spreads the load, and sorting opens sockets. */
	const struct ares_addrinfo_hints hints = {
		.ai_flags = ARES_AI_NOSORT,
		.ai_family = family,
		.ai_socktype = SOCK_STREAM,
	};
	int status = open_channel(dns);

	dns->now_ms = now_ms;
	if (status != ARES_SUCCESS) {
		callback(arg, status, 0, NULL);
		return;
	}
	ares_getaddrinfo(dns->channel, name, NULL, &hints, callback, arg);
	set_timer(dns);
}

int dns_find_in_hosts(struct dns *dns, const char *name, int family, struct hostent **ret_host)
{
	int status = open_channel(dns);

	if (status == ARES_SUCCESS)
		status = ares_gethostbyname_file(dns->channel, name, family, ret_host);
	return status;
}
