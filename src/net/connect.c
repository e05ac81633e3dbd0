/* SPDX-License-Identifier: MIT */
/*
 * Dialling, as RFC 8305 has it.
 *
 *   look up --> try an address --> (250 ms, or a failure) --> try the next --> ...
 *                   |
 *                   +--> connected: the others are closed
 *
 * Addresses may still be coming in while the first are tried. An attempt is over when one is
 * connected, when there is nothing left to try or to wait for, or at the deadline. How it ended
 * is then kept until the loop's next timers, which report it: so nobody is called back from
 * inside connect_start, nor from inside the resolver.
 */
#include "net/connect.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/die.h"
#include "net/resolve.h"

#define ATTEMPT_DELAY_MS 250 /* RFC 8305, section 8 */
#define ATTEMPTS_MAX     (2 * RESOLVE_FAMILY_MAX)

struct net {
	struct loop *loop;
	struct resolver *resolver;
	size_t connect_count;
};

/* One address being tried. */
struct attempt {
	struct loop_source source;
	struct connect *connect;
};

struct connect {
	struct net *net;
	connect_done *done;
	void *owner;
	uint64_t timeout_ms;

	struct resolve question;
	struct resolve_answer answer;
	bool is_resolved; /* no more addresses will come */
	size_t v6_tried, v4_tried;
	bool is_v4_next;

	struct attempt attempts[ATTEMPTS_MAX];
	size_t live_count;
	struct loop_timer next;     /* when to try the next address */
	struct loop_timer deadline; /* and, when it is over, when to report it */

	bool is_over;
	connect_judge *may_dial;
	int fd;          /* the one that won, or -1 */
	int code;        /* why not */
	const char *why; /* of the resolver */
	uint16_t port;
	char host[];
};

struct net *net_new(struct loop *loop)
{
	struct net *net = calloc(1, sizeof(*net));

	if (!net)
		die_no_memory();
	net->loop = loop;
	net->resolver = resolver_new(loop);
	return net;
}

void net_free(struct net *net)
{
	if (!net)
		return;
	assert(net->connect_count == 0);
	resolver_free(net->resolver);
	free(net);
}

void net_set_no_search(struct net *net)
{
	resolver_set_no_search(net->resolver);
}

void net_set_servers(struct net *net, const char *servers)
{
	resolver_set_servers(net->resolver, servers);
}

/* ---- the end ---- */

/* Closes and takes back everything but the one that won. */
static void stop(struct connect *connect)
{
	struct loop *loop = connect->net->loop;

	resolve_cancel(&connect->question);
	loop_cancel(loop, &connect->next);
	loop_cancel(loop, &connect->deadline);
	for (size_t i = 0; i < connect->v6_tried + connect->v4_tried; i++) {
		int fd = connect->attempts[i].source.fd;

		loop_remove(loop, &connect->attempts[i].source);
		close_fd(&fd);
	}
	connect->live_count = 0;
}

static void finish(struct connect *connect, int fd, int code, const char *why, uint64_t now_ms)
{
	stop(connect);
	connect->is_over = true;
	connect->fd = fd;
	connect->code = code;
	connect->why = why;
	loop_set_timer(connect->net->loop, &connect->deadline, now_ms);
}

static void describe(const struct connect *connect, struct err *err)
{
	if (connect->why)
		err_say(err, connect->code, "look up '%s': %s", connect->host, connect->why);
	else if (connect->code == ETIMEDOUT)
		err_say(err, ETIMEDOUT, "connect to '%s' port %u: no answer in %" PRIu64 " ms",
			connect->host, connect->port, connect->timeout_ms);
	else
		err_set(err, connect->code, "connect to '%s' port %u", connect->host,
			connect->port);
}

static void free_connect(struct connect *connect)
{
	connect->net->connect_count--;
	free(connect);
}

static void report(struct connect *connect, uint64_t now_ms)
{
	connect_done *done = connect->done;
	void *owner = connect->owner;
	int fd = connect->fd;
	struct err err = { 0 };

	if (fd < 0)
		describe(connect, &err);
	free_connect(connect);
	done(owner, fd, fd < 0 ? &err : NULL, now_ms);
}

static void on_deadline(struct loop_timer *timer, uint64_t now_ms)
{
	struct connect *connect = OWNER_OF(timer, struct connect, deadline);

	if (!connect->is_over) {
		bool has_names = connect->is_resolved || connect->v6_tried + connect->v4_tried > 0;

		stop(connect);
		connect->code = ETIMEDOUT;
		connect->why = has_names ? NULL : "the name servers did not answer in time";
	}
	report(connect, now_ms);
}

void connect_cancel(struct connect *connect)
{
	stop(connect);
	close_fd(&connect->fd);
	free_connect(connect);
}

/* ---- addresses, one after the other ---- */

static void try_next(struct connect *connect, uint64_t now_ms);

/*
 * Where every address fails, the one that got furthest says why: that there is no way to IPv6
 * is no news to somebody whose IPv4 address refused.
 */
static void note_failure(struct connect *connect, int code)
{
	bool is_local = code == ENETUNREACH || code == EADDRNOTAVAIL || code == EAFNOSUPPORT;

	if (!connect->code || !is_local)
		connect->code = code;
}

static void on_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct connect *connect = OWNER_OF(source, struct attempt, source)->connect;
	int fd = source->fd;
	int code = 0;
	socklen_t len = sizeof(code);

	(void)ready;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0)
		code = errno;
	loop_remove(connect->net->loop, source);
	connect->live_count--;
	if (code == 0) {
		finish(connect, fd, 0, NULL, now_ms);
		return;
	}
	close(fd);
	note_failure(connect, code);
	try_next(connect, now_ms);
}

static bool has_left(const struct connect *connect)
{
	return connect->v6_tried < connect->answer.v6_count ||
	       connect->v4_tried < connect->answer.v4_count;
}

union address {
	struct sockaddr any;
	struct sockaddr_in6 v6;
	struct sockaddr_in v4;
};

/* Families in turn, while both have addresses. */
static socklen_t take_address(struct connect *connect, union address *ret_address)
{
	bool has_v6 = connect->v6_tried < connect->answer.v6_count;
	bool has_v4 = connect->v4_tried < connect->answer.v4_count;
	bool is_v4 = has_v4 && (connect->is_v4_next || !has_v6);

	connect->is_v4_next = !is_v4;
	if (is_v4) {
		ret_address->v4 = (struct sockaddr_in){
			.sin_family = AF_INET,
			.sin_port = htons(connect->port),
			.sin_addr = connect->answer.v4[connect->v4_tried++],
		};
		return sizeof(ret_address->v4);
	}
	ret_address->v6 = (struct sockaddr_in6){
		.sin6_family = AF_INET6,
		.sin6_port = htons(connect->port),
		.sin6_addr = connect->answer.v6[connect->v6_tried++],
	};
	return sizeof(ret_address->v6);
}

/* Apart, because elsewhere `connect` is a variable. */
static int begin(int fd, const union address *address, socklen_t len)
{
	return connect(fd, &address->any, len) < 0 && errno != EINPROGRESS ? errno : 0;
}

/* 0, and the attempt is under way, or an errno. */
static int start_attempt(struct connect *connect)
{
	struct attempt *attempt = &connect->attempts[connect->v6_tried + connect->v4_tried];
	union address address;
	socklen_t len = take_address(connect, &address);
	_cleanup_close_ int fd = -1;
	int one = 1, r;

	attempt->connect = connect;
	attempt->source = (struct loop_source){ .fd = -1, .on_ready = on_ready };
	/* Here and nowhere else: the address that is judged is the address that is dialled. */
	if (connect->may_dial && !connect->may_dial(&address.any))
		return EACCES;
	fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0)
		return errno;
	r = begin(fd, &address, len);
	if (r == 0)
		r = -loop_add(connect->net->loop, &attempt->source, fd, LOOP_WRITE);
	if (r != 0)
		return r;
	take_fd(&fd);
	connect->live_count++;
	return 0;
}

static void try_next(struct connect *connect, uint64_t now_ms)
{
	struct loop *loop = connect->net->loop;

	loop_cancel(loop, &connect->next);
	while (has_left(connect)) {
		int code = start_attempt(connect);

		if (code == 0) {
			loop_set_timer(loop, &connect->next, now_ms + ATTEMPT_DELAY_MS);
			return;
		}
		note_failure(connect, code);
	}
	if (connect->live_count == 0 && connect->is_resolved)
		finish(connect, -1, connect->code, NULL, now_ms);
}

static void on_next_due(struct loop_timer *timer, uint64_t now_ms)
{
	try_next(OWNER_OF(timer, struct connect, next), now_ms);
}

static void on_answer(struct resolve *question, const struct resolve_answer *answer, bool is_final,
		      int code, const char *why, uint64_t now_ms)
{
	struct connect *connect = OWNER_OF(question, struct connect, question);

	connect->answer = *answer;
	connect->is_resolved = is_final;
	if (code)
		finish(connect, -1, code, why, now_ms);
	else if (connect->live_count == 0 || !connect->next.place)
		try_next(connect, now_ms); /* else they have their turn when the timer is due */
}

struct connect *connect_start(struct net *net, const char *host, uint16_t port, uint64_t timeout_ms,
			      uint64_t now_ms, connect_done *done, void *owner)
{
	return connect_start_if(net, host, port, NULL, timeout_ms, now_ms, done, owner);
}

struct connect *connect_start_if(struct net *net, const char *host, uint16_t port,
				 connect_judge *may_dial, uint64_t timeout_ms, uint64_t now_ms,
				 connect_done *done, void *owner)
{
	size_t host_size = strnlen(host, RESOLVE_NAME_MAX + 1) + 1;
	struct connect *connect = calloc(1, sizeof(*connect) + host_size);

	if (!connect)
		die_no_memory();
	*connect = (struct connect){
		.net = net,
		.done = done,
		.owner = owner,
		.may_dial = may_dial,
		.timeout_ms = timeout_ms,
		.question.on_answer = on_answer,
		.next.on_due = on_next_due,
		.deadline.on_due = on_deadline,
		.fd = -1,
		.port = port,
	};
	memcpy(connect->host, host, host_size - 1); /* too long a one stays too long */
	net->connect_count++;
	loop_set_timer(net->loop, &connect->deadline, now_ms + timeout_ms);
	resolve_start(net->resolver, &connect->question, connect->host, now_ms);
	return connect;
}
