/* SPDX-License-Identifier: MIT */
/* The other end of the control socket. */
#include "cmd/control_client.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/buf.h"
#include "cmd/state.h"
#include "keeper/control.h"
#include "sys/pass.h"

static int say_cannot_connect(const char *path, int error, struct err *err)
{
	switch (error) {
	case ENOENT:
	case ECONNREFUSED:
		err_say(err, error, "no keeper listens at '%.100s'", path);
		err_hint(err, "'warder keeper --config FILE' starts one");
		return -error;
	case ENAMETOOLONG:
		return err_say(err, error, "a socket's path has at most %zu bytes",
			       sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1);
	default:
		return err_set(err, error, "connect to the keeper at '%.100s'", path);
	}
}

int control_dial(const char *path, bool may_wait, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	struct sockaddr_un place = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(place.sun_path))
		return -ENAMETOOLONG;
	memcpy(place.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | (may_wait ? 0 : SOCK_NONBLOCK), 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&place, sizeof(place)) < 0)
		return -errno;
	if (!may_wait && fcntl(fd, F_SETFL, 0) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

static int connect_to(const char *address, bool may_wait, int *ret_fd, struct err *err)
{
	char path[STATE_PATH_MAX];
	int r = 0;

	if (!address)
		r = state_control_path(path, err);
	else if (strncmp(address, "unix:", 5) != 0)
		r = err_say(err, EINVAL, "--keeper: '%.100s' is not unix:PATH", address);
	else
		snprintf(path, sizeof(path), "%s", address + 5);
	if (r < 0)
		return r;
	r = control_dial(path, may_wait, ret_fd);
	return r < 0 ? say_cannot_connect(path, -r, err) : 0;
}

int control_connect(const char *address, int *ret_fd, struct err *err)
{
	return connect_to(address, true, ret_fd, err);
}

int control_connect_now(const char *address, int *ret_fd, struct err *err)
{
	return connect_to(address, false, ret_fd, err);
}

int control_send(int fd, char letter, const char *words, size_t len, struct err *err)
{
	struct buf packet;
	int r;

	buf_init(&packet, CONTROL_PACKET_MAX);
	buf_add(&packet, &letter, 1);
	buf_add(&packet, words, len);
	r = packet.len < CONTROL_PACKET_MAX ? pass_send(fd, packet.data, packet.len, -1) : -E2BIG;
	buf_fini(&packet);
	/* Who is not welcome is told so before it has asked; that is to be read, then. */
	if (r == -EPIPE)
		r = 0;
	return r < 0 ? err_set(err, -r, "ask the keeper") : 0;
}
