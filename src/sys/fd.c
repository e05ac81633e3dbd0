/* SPDX-License-Identifier: MIT */
/* Descriptor helpers. */
#include "sys/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

int fd_write_all(int fd, const char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, bytes, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}

int fd_write_file(int dir_fd, const char *path, const char *text)
{
	_cleanup_close_ int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	size_t len = strlen(text);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = write(fd, text, len);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EIO;
}

ssize_t fd_read_file(int dir_fd, const char *path, char *text, size_t size)
{
	_cleanup_close_ int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	size_t len = 0;

	if (fd < 0)
		return -errno;
	while (len < size) {
		ssize_t n = read(fd, text + len, size - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0) {
			text[len] = '\0';
			return (ssize_t)len;
		}
		len += (size_t)n;
	}
	return -EFBIG;
}

void fd_set_abrupt(int fd, bool is_abrupt)
{
	struct linger linger = { .l_onoff = is_abrupt };

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

int fd_cloexec_from(unsigned int from)
{
	if (syscall(SYS_close_range, from, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		return -errno;
	return 0;
}

int fd_fill_std(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		/*
		 * The lowest free number is taken, and that is fd. Open the wrong way
		 * round on purpose: reading and writing fail, as they do when closed.
		 */
		if (open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0)
			return -errno;
	}
	return 0;
}
