/* SPDX-License-Identifier: MIT */
/* The service manager's socket: a datagram per message, a line per assignment. */
#include "sys/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

/* A path, or a name in the abstract name space, which is written with an "@". */
static int read_address(const char *text, struct sockaddr_un *ret_address, socklen_t *ret_len)
{
	size_t len = strlen(text);

	if ((text[0] != '/' && text[0] != '@') || len < 2)
		return -EAFNOSUPPORT;
	if (len >= sizeof(ret_address->sun_path))
		return -ENAMETOOLONG;
	*ret_address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(ret_address->sun_path, text, len);
	*ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	if (text[0] == '@')
		ret_address->sun_path[0] = '\0'; /* and every byte counts: there is no NUL */
	else
		++*ret_len;
	return 0;
}

static int connect_to(const char *text, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	struct sockaddr_un address;
	socklen_t len;
	int r = read_address(text, &address, &len);

	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, len) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

int notify_open(struct notify *notify, struct err *err)
{
	const char *text = getenv("NOTIFY_SOCKET");
	int r = 0;

	notify->fd = -1;
	if (!text || !*text)
		return 0;
	r = connect_to(text, &notify->fd);
	if (r < 0)
		err_set(err, -r, "reach the service manager at NOTIFY_SOCKET '%.110s'", text);
	unsetenv("NOTIFY_SOCKET");
	return r;
}

void notify_close(struct notify *notify)
{
	close_fd(&notify->fd);
}

static void deliver(const struct notify *notify, const char *message)
{
	if (notify->fd >= 0 &&
	    send(notify->fd, message, strlen(message), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return; /* as the header says */
}

/* A line end in the text would begin another assignment. */
static void send_state(const struct notify *notify, const char *state, const char *status)
{
	char message[NOTIFY_TEXT_MAX + 128];
	int len = snprintf(message, sizeof(message), "%s", state);

	if (status) {
		snprintf(message + len, sizeof(message) - (size_t)len, "STATUS=%.*s",
			 NOTIFY_TEXT_MAX, status);
		for (char *c = message + len; *c; c++)
			if ((unsigned char)*c < 0x20 || *c == 0x7f)
				*c = ' ';
	}
	deliver(notify, message);
}

void notify_ready(const struct notify *notify, const char *status)
{
	send_state(notify, "READY=1\n", status);
}

/* With the time: an answer to an earlier reload is not taken for one to this. */
void notify_reloading(const struct notify *notify, const char *status)
{
	struct timespec now;
	char state[80];

	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\n",
		 (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
	send_state(notify, state, status);
}

void notify_stopping(const struct notify *notify, const char *status)
{
	send_state(notify, "STOPPING=1\n", status);
}

void notify_status(const struct notify *notify, const char *status)
{
	send_state(notify, "", status);
}

void notify_main_pid(const struct notify *notify, pid_t pid)
{
	char message[40];

	snprintf(message, sizeof(message), "MAINPID=%d\n", (int)pid);
	deliver(notify, message);
}

void notify_extend(const struct notify *notify, unsigned int time_s)
{
	char message[64];

	snprintf(message, sizeof(message), "EXTEND_TIMEOUT_USEC=%" PRIu64 "\n",
		 (uint64_t)time_s * 1000000);
	deliver(notify, message);
}
