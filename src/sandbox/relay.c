/* SPDX-License-Identifier: MIT */
/* One read or one write per turn, so that a slow reader delays nothing else. */
#include "sandbox/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/utf8.h"

#define END_OF_TEXT 4 /* Control-D */

/*
 * A pipe takes this much whenever it polls writable; more would block where the
 * descriptor could not be made non-blocking.
 */
#define WRITE_MAX ((size_t)4096)

int relay_open_output(struct relay *relay, int fd)
{
	bool is_terminal = isatty(fd) == 1;
	char path[64];
	struct stat st;
	int flags;

	if (fstat(fd, &st) < 0)
		return -errno;
	relay->closes_to = true;
	/* Opened again, it has flags of its own. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (S_ISFIFO(st.st_mode) || is_terminal)
		relay->to = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (relay->to >= 0)
		return 0;
	relay->to = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (relay->to < 0)
		return -errno;
	/* Another user's terminal, as after su: there is no other way not to block on it. */
	flags = fcntl(fd, F_GETFL);
	if (is_terminal && flags >= 0 && !(flags & O_NONBLOCK))
		relay->was_blocking = fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
	return 0;
}

struct pollfd relay_want(const struct relay *relay)
{
	if (relay->end > relay->start)
		return (struct pollfd){ .fd = relay->to, .events = POLLOUT };
	return (struct pollfd){ .fd = relay->from, .events = POLLIN };
}

void relay_keep_position(struct relay *relay, int pipe_fd)
{
	off_t position = relay->from < 0 ? -1 : lseek(relay->from, 0, SEEK_CUR);

	if (position < 0)
		return;
	relay->pipe_fd = fcntl(pipe_fd, F_DUPFD_CLOEXEC, 3);
	relay->has_position = relay->pipe_fd >= 0;
	relay->file_fd = relay->from;
	relay->position = position;
}

void relay_give_back(struct relay *relay)
{
	int unread = 0;
	off_t position;

	if (!relay->has_position)
		return;
	relay->has_position = false;
	position = lseek(relay->file_fd, 0, SEEK_CUR);
	if (position >= 0 && ioctl(relay->pipe_fd, FIONREAD, &unread) == 0) {
		position -= unread + (off_t)(relay->end - relay->start);
		/* Bytes that the agent put into the pipe itself do not count. */
		lseek(relay->file_fd, position < relay->position ? relay->position : position,
		      SEEK_SET);
	}
	close_fd(&relay->pipe_fd);
}

void relay_bound(struct relay *relay)
{
	int available = 0;

	if (relay->from < 0 || ioctl(relay->from, FIONREAD, &available) < 0)
		return;
	relay->is_bounded = true;
	relay->left = (uint64_t)available;
	if (relay->left == 0 && relay->start == relay->end)
		relay_end(relay);
}

void relay_end(struct relay *relay)
{
	if (relay->owns_from)
		close_fd(&relay->from);
	relay->from = -1;
	if (relay->was_blocking && relay->to >= 0)
		fcntl(relay->to, F_SETFL, fcntl(relay->to, F_GETFL) & ~O_NONBLOCK);
	if (relay->closes_to)
		close_fd(&relay->to);
	relay->start = relay->end = 0;
}

/* How much of a chunk the budget lets through. */
static size_t spend(struct budget *budget, const char *bytes, size_t len)
{
	size_t allowed = len;

	if (!budget || !budget->is_limited)
		return len;
	if (allowed > budget->left) {
		/* Not in the middle of a character; what is dropped, is dropped for good. */
		allowed = budget->is_exceeded ? 0 : utf8_cut(bytes, budget->left);
		budget->is_exceeded = true;
		budget->left = 0;
		return allowed;
	}
	budget->left -= allowed;
	return allowed;
}

static void take_in(struct relay *relay)
{
	size_t most = relay->is_bounded && relay->left < sizeof(relay->chunk)
			      ? (size_t)relay->left
			      : sizeof(relay->chunk);
	ssize_t n = read(relay->from, relay->chunk, most);
	size_t allowed;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n == 0 && relay->sends_eof) {
		relay->sends_eof = false;
		/* In the middle of a line, the first only ends the line. */
		memset(relay->chunk, END_OF_TEXT, 2);
		relay->start = 0;
		relay->end = relay->is_mid_line ? 2 : 1;
		return;
	}
	if (n <= 0) { /* a terminal whose other side is closed says EIO */
		relay_end(relay);
		return;
	}
	relay->left -= relay->is_bounded ? (uint64_t)n : 0;
	allowed = spend(relay->budget, relay->chunk, (size_t)n);
	if (relay->into) {
		buf_add(relay->into, relay->chunk, allowed);
		return;
	}
	relay->is_mid_line = relay->chunk[n - 1] != '\n';
	relay->start = 0;
	relay->end = allowed;
}

static void give_out(struct relay *relay)
{
	size_t len = relay->end - relay->start;
	ssize_t n = write(relay->to, relay->chunk + relay->start,
			  len < WRITE_MAX ? len : WRITE_MAX);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n < 0) /* nobody reads any more: the writer shall notice */
		relay_end(relay);
	else
		relay->start += (size_t)n;
}

void relay_move(struct relay *relay)
{
	if (relay->end > relay->start)
		give_out(relay);
	else
		take_in(relay);
	if (relay->is_bounded && relay->left == 0 && relay->start == relay->end)
		relay_end(relay);
}
