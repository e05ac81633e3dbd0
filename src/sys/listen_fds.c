/* SPDX-License-Identifier: MIT */
/* Socket activation. */
#include "sys/listen_fds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes.h"

static const char unnamed[] = "unknown"; /* as systemd calls it */

/* Digits and nothing else; false when it is no number up to `most`. */
static bool read_number(const char *text, uint64_t most, uint64_t *ret_number)
{
	uint64_t number = 0;

	if (!*text || (text[0] == '0' && text[1]))
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return false;
		number = number * 10 + (uint64_t)(*text - '0');
		if (number > most)
			return false;
	}
	*ret_number = number;
	return true;
}

/* One name per descriptor, with colons between them; or none at all. */
static int read_names(struct listen_fds *listen_fds, const char *text)
{
	struct bytes rest = bytes_of(text ? text : ""), name;

	for (size_t i = 0; i < listen_fds->count; i++) {
		bool is_last = i + 1 == listen_fds->count;

		if (!text) {
			name = BYTES(unnamed);
		} else if (is_last) {
			name = rest;
		} else if (!bytes_split(&rest, ':', &name)) {
			return -EINVAL;
		}
		if (name.len >= LISTEN_FDS_NAME_MAX || memchr(name.data, ':', name.len))
			return -EINVAL;
		memcpy(listen_fds->entries[i].name, name.data, name.len);
		listen_fds->entries[i].name[name.len] = '\0';
	}
	return 0;
}

static int take_over(struct listen_fds *listen_fds, struct err *err)
{
	const char *pid_text = getenv("LISTEN_PID"), *count_text = getenv("LISTEN_FDS");
	uint64_t pid, count;

	if (!pid_text || !count_text)
		return 0;
	/* A variable of one that was not cleaned up before it started us is not about us. */
	if (!read_number(pid_text, INT32_MAX, &pid))
		return err_say(err, EINVAL, "LISTEN_PID '%.20s' is no process", pid_text);
	if ((pid_t)pid != getpid())
		return 0;
	if (!read_number(count_text, LISTEN_FDS_MAX, &count))
		return err_say(err, EINVAL, "LISTEN_FDS '%.20s' is no number up to %d", count_text,
			       LISTEN_FDS_MAX);
	listen_fds->count = (size_t)count;
	if (read_names(listen_fds, getenv("LISTEN_FDNAMES")) < 0)
		return err_say(err, EINVAL, "LISTEN_FDNAMES does not name %zu descriptors",
			       listen_fds->count);
	for (size_t i = 0; i < listen_fds->count; i++) {
		int fd = LISTEN_FDS_FIRST + (int)i;

		if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
			return err_set(err, errno, "take descriptor %d, as LISTEN_FDS says", fd);
		listen_fds->entries[i].fd = fd;
		listen_fds->entries[i].is_managed = true;
	}
	return 0;
}

int listen_fds_open(struct listen_fds *listen_fds, struct err *err)
{
	static const char *const variables[] = { "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES" };
	int r;

	*listen_fds = (struct listen_fds){ .count = 0 };
	r = take_over(listen_fds, err);
	if (r < 0)
		listen_fds->count = 0;
	for (size_t i = 0; i < ARRAY_LEN(variables); i++)
		unsetenv(variables[i]);
	return r;
}

static bool has_option(int fd, int option, int expected)
{
	int value = 0;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 && value == expected;
}

/* What the unit opens must be what we accept on; anything else would fail much later. */
static int check(int fd, const char *name, int domain, int type, struct err *err)
{
	int flags = fcntl(fd, F_GETFL);

	if (!has_option(fd, SO_ACCEPTCONN, 1) || !has_option(fd, SO_TYPE, type) ||
	    (domain && !has_option(fd, SO_DOMAIN, domain)))
		return err_say(err, EINVAL,
			       "the descriptor '%s' of the service manager is no %s that listens; "
			       "see the unit of the socket",
			       name,
			       type == SOCK_SEQPACKET ? "socket of sequential packets"
						      : "stream socket");
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return err_set(err, errno, "set up the descriptor '%s'", name);
	return 0;
}

int listen_fds_take(struct listen_fds *listen_fds, const char *name, int domain, int type,
		    int *ret_fd, struct err *err)
{
	*ret_fd = -1;
	for (size_t i = 0; i < listen_fds->count; i++) {
		int r, fd = listen_fds->entries[i].fd;

		if (fd < 0 || strcmp(listen_fds->entries[i].name, name) != 0)
			continue;
		r = check(fd, name, domain, type, err);
		if (r == 0)
			*ret_fd = take_fd(&listen_fds->entries[i].fd);
		return r;
	}
	return 0;
}

bool listen_fds_is_managed(const struct listen_fds *listen_fds, const char *name)
{
	for (size_t i = 0; i < listen_fds->count; i++)
		if (strcmp(listen_fds->entries[i].name, name) == 0)
			return listen_fds->entries[i].is_managed;
	return false;
}

const char *listen_fds_close(struct listen_fds *listen_fds)
{
	const char *first = NULL;

	for (size_t i = 0; i < listen_fds->count; i++) {
		if (listen_fds->entries[i].fd >= 0 && !first)
			first = listen_fds->entries[i].name;
		close_fd(&listen_fds->entries[i].fd);
	}
	return first;
}
