/* SPDX-License-Identifier: MIT */
/* Handing over. */
#include "cmd/handover.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/die.h"
#include "cmd/control_client.h"
#include "keeper/control.h"
#include "sys/pass.h"
#include "sys/status.h"

#define LISTENER  'L'
#define ANSWER_MS 5000

/* ---- the successor ---- */

/* -1 when nobody is there: nobody can listen at a path that is too long. */
static int dial(const char *path, int *ret_fd, struct err *err)
{
	const struct timeval patience = { .tv_sec = ANSWER_MS / 1000 };
	int r = control_dial(path, ret_fd);

	if (r == -ENOENT || r == -ECONNREFUSED || r == -ENAMETOOLONG)
		return 0;
	if (r == 0 && setsockopt(*ret_fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
		r = -errno;
	return r < 0 ? err_set(err, -r, "connect to the keeper at '%.100s'", path) : 0;
}

static int take_part(const char *name, int *part_fd, struct listen_fds *given, int *store_fd)
{
	if (*part_fd < 0 || !*name || strlen(name) >= LISTEN_FDS_NAME_MAX)
		return -EPROTO;
	if (strcmp(name, "store") == 0) {
		*store_fd = take_fd(part_fd);
		return 0;
	}
	if (given->count == LISTEN_FDS_MAX)
		return -EPROTO;
	snprintf(given->entries[given->count].name, LISTEN_FDS_NAME_MAX, "%s", name);
	given->entries[given->count++].fd = take_fd(part_fd);
	return 0;
}

static int read_parts(int fd, struct listen_fds *given, int *store_fd, struct err *err)
{
	char packet[512];

	for (;;) {
		_cleanup_close_ int part_fd = -1;
		ssize_t n = pass_receive(fd, packet, sizeof(packet) - 1, &part_fd);

		packet[n > 0 ? n : 0] = '\0';
		if (n > 0 && packet[0] == STATUS_DONE)
			return 0;
		if (n > 0 && packet[0] == STATUS_FAILED)
			return err_say(err, EBUSY, "the keeper that is there stays: %.300s",
				       packet + 1);
		if (n <= 0 || packet[0] != LISTENER ||
		    take_part(packet + 1, &part_fd, given, store_fd) < 0)
			return err_say(
				err, EPROTO,
				"the keeper that is there does not hand over; stop it first");
	}
}

int handover_ask(const char *path, int *ret_fd, struct listen_fds *ret_given, int *ret_store_fd,
		 struct err *err)
{
	static const char letter = CONTROL_HAND_OVER;
	int r;

	*ret_fd = *ret_store_fd = -1;
	r = dial(path, ret_fd, err);
	if (r < 0 || *ret_fd < 0)
		return r;
	r = pass_send(*ret_fd, &letter, 1, -1);
	if (r < 0)
		return err_set(err, -r, "ask the keeper that is there");
	return read_parts(*ret_fd, ret_given, ret_store_fd, err);
}

int handover_finish(int fd, struct err *err)
{
	int r = status_send(fd, STATUS_GO, "");

	return r < 0 ? err_set(err, -r, "take the place of the keeper that was there") : 0;
}

/* ---- the one before ---- */

struct handover {
	struct loop_source source;
	struct loop *loop;
	int fd; /* owned */
	pid_t pid;
	const struct handover_ops *ops;
	void *owner;
};

void handover_free(struct handover *handover)
{
	if (!handover)
		return;
	loop_remove(handover->loop, &handover->source);
	close_fd(&handover->fd);
	free(handover);
}

/* GO, or its end. */
static void on_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct handover *handover = OWNER_OF(source, struct handover, source);
	char packet[16];
	ssize_t n = recv(handover->fd, packet, sizeof(packet), MSG_DONTWAIT);

	(void)ready;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	loop_remove(handover->loop, &handover->source);
	if (n > 0 && packet[0] == STATUS_GO) {
		handover->ops->leave(handover->owner, handover->pid, now_ms);
	} else {
		handover->ops->stay(handover->owner);
	}
}

static int send_part(int fd, const char *name, int part_fd)
{
	char packet[64];
	int len = snprintf(packet, sizeof(packet), "%c%s", LISTENER, name);

	return pass_send(fd, packet, (size_t)len, part_fd);
}

struct handover *handover_begin(struct loop *loop, int fd, pid_t pid,
				const struct handover_part *parts, size_t count,
				const struct handover_ops *ops, void *owner)
{
	struct handover *handover = calloc(1, sizeof(*handover));
	_cleanup_close_ int store_fd = -1;
	int r = 0;

	if (!handover)
		die_no_memory();
	*handover = (struct handover){ .source = { .fd = -1, .on_ready = on_ready },
				       .loop = loop,
				       .fd = fd,
				       .pid = pid,
				       .ops = ops,
				       .owner = owner };
	ops->pause(owner);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = send_part(fd, parts[i].name, parts[i].fd);
	if (r == 0)
		r = loop_add(loop, &handover->source, fd, LOOP_READ);
	if (r == 0)
		r = ops->lend(owner, &store_fd);
	if (r == 0 && store_fd >= 0)
		r = send_part(fd, "store", store_fd);
	if (r == 0)
		r = status_send(fd, STATUS_DONE, "");
	if (r == 0)
		return handover;
	handover_free(handover);
	ops->stay(owner);
	return NULL;
}
