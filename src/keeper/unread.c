/* SPDX-License-Identifier: MIT */
/* Links that nobody has taken. */
#include "keeper/unread.h"

#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/list.h"

#define LOOK_FIRST_MS 5 /* most read what they have asked for */
#define LOOK_MOST_MS  1000

struct unread {
	struct loop_timer look;
	struct keeper *keeper;
	struct unread *next, **at;
	uint64_t wait_ms; /* until the next look */
	uid_t uid;
	int fd;
};

static bool is_unread(int fd)
{
	int len = 0;

	return ioctl(fd, SIOCOUTQ, &len) == 0 && len > 0;
}

static void end(struct unread *unread)
{
	loop_cancel(&unread->keeper->loop, &unread->look);
	LIST_REMOVE(unread);
	close_fd(&unread->fd);
	free(unread);
}

static void on_look(struct loop_timer *timer, uint64_t now_ms)
{
	struct unread *unread = OWNER_OF(timer, struct unread, look);

	if (!is_unread(unread->fd)) {
		end(unread);
		return;
	}
	unread->wait_ms *= 2;
	if (unread->wait_ms > LOOK_MOST_MS)
		unread->wait_ms = LOOK_MOST_MS;
	loop_set_timer(&unread->keeper->loop, timer, now_ms + unread->wait_ms);
}

void unread_keep(struct keeper *keeper, uid_t uid, int fd)
{
	struct unread *unread;

	shutdown(fd, SHUT_RDWR);
	if (!is_unread(fd)) {
		close_fd(&fd);
		return;
	}
	unread = calloc(1, sizeof(*unread));
	if (!unread)
		die_no_memory();
	unread->keeper = keeper;
	unread->uid = uid;
	unread->fd = fd;
	unread->wait_ms = LOOK_FIRST_MS;
	unread->look.on_due = on_look;
	LIST_ADD(&keeper->unread, unread);
	loop_set_timer(&keeper->loop, &unread->look, clock_now_ms() + LOOK_FIRST_MS);
}

size_t unread_count(const struct keeper *keeper, uid_t uid)
{
	size_t count = 0;

	for (const struct unread *unread = keeper->unread; unread; unread = unread->next)
		count += unread->uid == uid;
	return count;
}

void unread_drop(struct keeper *keeper)
{
	while (keeper->unread)
		end(keeper->unread);
}
