/* SPDX-License-Identifier: MIT */
/* A plain socket as a stream, and the calls through the table. */
#include "net/stream.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>

ssize_t stream_read(struct stream *stream, char *data, size_t len)
{
	ssize_t n;

	assert(len > 0); /* else the end of the stream could not be told from nothing */
	n = stream->ops->read(stream, data, len);
	stream->read_waits = n == -EAGAIN ? stream->waits_for : 0;
	return n;
}

ssize_t stream_write(struct stream *stream, const char *data, size_t len)
{
	ssize_t n;

	assert(len > 0);
	n = stream->ops->write(stream, data, len);
	stream->write_waits = n == -EAGAIN ? stream->waits_for : 0;
	return n;
}

unsigned int stream_interest(const struct stream *stream, bool wants_read, bool wants_write)
{
	unsigned int interest = 0;

	if (wants_read)
		interest |= stream->read_waits ? stream->read_waits : LOOP_READ;
	if (wants_write)
		interest |= stream->write_waits ? stream->write_waits : LOOP_WRITE;
	return interest;
}

void stream_close(struct stream *stream)
{
	if (stream->ops)
		stream->ops->close(stream);
	*stream = (struct stream){ .fd = -1 };
}

/*
 * MSG_DONTWAIT, whatever the descriptor's flags say: those of a link that somebody has passed to us
 * are theirs to change as well, at any time.
 */
static ssize_t plain_read(struct stream *stream, char *data, size_t len)
{
	ssize_t n;

	do {
		n = recv(stream->fd, data, len, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	stream->waits_for = LOOP_READ;
	return n < 0 ? -errno : n;
}

static ssize_t plain_write(struct stream *stream, const char *data, size_t len)
{
	ssize_t n;

	do {
		n = send(stream->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	stream->waits_for = LOOP_WRITE;
	return n < 0 ? -errno : n;
}

static void plain_close(struct stream *stream)
{
	close_fd(&stream->fd);
}

void stream_init_plain(struct stream *stream, int fd)
{
	static const struct stream_ops ops = { plain_read, plain_write, plain_close };

	*stream = (struct stream){ .ops = &ops, .fd = fd };
}
