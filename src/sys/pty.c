/* SPDX-License-Identifier: MIT */
/* Pseudo terminals. */
#include "sys/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

int pty_open_master(const char *ptmx)
{
	_cleanup_close_ int fd = open(ptmx, O_RDWR | O_NOCTTY | O_CLOEXEC);
	int unlock = 0;

	if (fd < 0)
		return -errno;
	if (ioctl(fd, TIOCSPTLCK, &unlock) < 0)
		return -errno;
	return take_fd(&fd);
}

int pty_open_slave(int master_fd)
{
	int fd = ioctl(master_fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int pty_become_controlling(int slave_fd)
{
	if (setsid() < 0)
		return -errno;
	if (ioctl(slave_fd, TIOCSCTTY, 0) < 0)
		return -errno;
	return 0;
}

void pty_copy_size(int from_fd, int to_fd)
{
	struct winsize size;

	if (ioctl(from_fd, TIOCGWINSZ, &size) == 0)
		ioctl(to_fd, TIOCSWINSZ, &size);
}

int pty_set_raw(int fd, struct termios *ret_saved)
{
	struct termios raw;

	if (tcgetattr(fd, ret_saved) < 0)
		return -errno;
	raw = *ret_saved;
	cfmakeraw(&raw);
	if (tcsetattr(fd, TCSADRAIN, &raw) < 0)
		return -errno;
	return 0;
}

void pty_restore(int fd, const struct termios *saved)
{
	tcsetattr(fd, TCSADRAIN, saved);
}
