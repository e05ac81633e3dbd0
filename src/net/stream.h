/* SPDX-License-Identifier: MIT */
/*
 * A connected byte stream: a plain socket, or TLS over one. The transport is a small table of
 * functions, so that whoever reads and writes need not know which it is.
 *
 * Nothing here blocks or waits: after -EAGAIN the owner waits for what `waits_for` says.
 */
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/attr.h"
#include "event/loop.h"

struct stream;

struct stream_ops {
	ssize_t (*read)(struct stream *stream, char *data, size_t len);
	ssize_t (*write)(struct stream *stream, const char *data, size_t len);
	/* At once; frees what it has. TLS sends close_notify if that does not block. */
	void (*close)(struct stream *stream);
};

/* May be copied from one place to another; then the copy is the stream. */
struct stream {
	const struct stream_ops *ops;
	int fd;      /* owned */
	void *state; /* the transport's own, or NULL */
	/* After -EAGAIN: the enum loop_interest to wait for. Of TLS it may be the other
	 * direction: a read may have to write first. */
	unsigned int waits_for;
	/* The same of the last read and of the last write; 0: it did not have to wait. */
	unsigned int read_waits, write_waits;
	/* Read more before waiting: bytes have been taken off the socket already, which
	 * will not become ready for their sake. */
	bool has_pending;
};

/* Takes the descriptor, of a socket. Whether it blocks by itself does not matter. */
void stream_init_plain(struct stream *stream, int fd);

/*
 * Bytes read or written, or -EAGAIN, or another -errno. 0 from a read is a clean end, for TLS
 * its close_notify; TLS that ends without one is -ECONNRESET: it may have been cut. `len` is
 * not 0.
 *
 * After a write that was -EAGAIN the next one must begin with the same bytes (it may have more,
 * and they may lie elsewhere): TLS may have encrypted them already. No write raises SIGPIPE.
 */
ssize_t stream_read(struct stream *stream, char *data, size_t len) must_check;
ssize_t stream_write(struct stream *stream, const char *data, size_t len) must_check;

/* What to watch it for, as a mask of enum loop_interest. */
unsigned int stream_interest(const struct stream *stream, bool wants_read, bool wants_write);

/* What is closed already, or was never opened (zeroed), is left alone. */
void stream_close(struct stream *stream);

#endif
