/* SPDX-License-Identifier: MIT */
/* Handing over. */
#include "cmd/handover.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/die.h"
#include "cmd/control_client.h"
#include "keeper/control.h"
#include "sys/pass.h"
#include "sys/pidfd.h"
#include "sys/status.h"
#include "warder.h"

#define LISTENER  'L'
#define MANAGED   'M'
#define ANSWER_MS 5000

/* How long it may take from the asking to GO: the successor gives up before it is given up. */
#define SUCCESSOR_S 10
#define PATIENCE_MS 15000

/* ---- the successor ---- */

/* Whoever hangs is in no state to be asked to clean up; the one before goes on. */
static void on_late(int number)
{
	static const char text[] = "warder: the store and the sockets were not open within 10 s of "
				   "asking for them; the keeper that is there stays\n";
	ssize_t n = write(STDERR_FILENO, text, sizeof(text) - 1);

	(void)number;
	(void)n;
	_exit(WARDER_EXIT_FAILED);
}

/* -1 when nobody is there: nobody can listen at a path that is too long. */
static int dial(const char *path, int *ret_fd, struct err *err)
{
	const struct timeval patience = { .tv_sec = ANSWER_MS / 1000 };
	int r = control_dial(path, true, ret_fd);

	if (r == -ENOENT || r == -ECONNREFUSED || r == -ENAMETOOLONG)
		return 0;
	if (r == 0 && setsockopt(*ret_fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
		r = -errno;
	return r < 0 ? err_set(err, -r, "connect to the keeper at '%.100s'", path) : 0;
}

static int take_part(const char *packet, int *part_fd, struct listen_fds *given, int *store_fd)
{
	const char *name = packet + 1;

	if (*part_fd < 0 || !*name || strlen(name) >= LISTEN_FDS_NAME_MAX)
		return -EPROTO;
	if (strcmp(name, "store") == 0) {
		*store_fd = take_fd(part_fd);
		return 0;
	}
	if (given->count == LISTEN_FDS_MAX)
		return -EPROTO;
	given->entries[given->count].is_managed = packet[0] == MANAGED;
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
		if (n <= 0 || (packet[0] != LISTENER && packet[0] != MANAGED) ||
		    take_part(packet, &part_fd, given, store_fd) < 0)
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
	signal(SIGALRM, on_late);
	alarm(SUCCESSOR_S);
	r = pass_send(*ret_fd, &letter, 1, -1);
	if (r < 0)
		return err_set(err, -r, "ask the keeper that is there");
	return read_parts(*ret_fd, ret_given, ret_store_fd, err);
}

int handover_finish(int fd, struct err *err)
{
	int r;

	alarm(0);
	r = status_send(fd, STATUS_GO, "");
	if (r == -EPIPE)
		return err_say(err, EPIPE,
			       "the keeper that is there has ended, or did not wait any longer");
	return r < 0 ? err_set(err, -r, "take the place of the keeper that was there") : 0;
}

/* ---- the one before ---- */

struct handover {
	struct loop_source source;
	struct loop_timer patience;
	struct loop *loop;
	int fd; /* owned */
	pid_t pid;
	int pid_fd; /* of the successor, owned; -1 when that cannot be said for sure */
	bool has_lent, is_late;
	const struct handover_ops *ops;
	void *owner;
};

void handover_free(struct handover *handover)
{
	if (!handover)
		return;
	loop_cancel(handover->loop, &handover->patience);
	loop_remove(handover->loop, &handover->source);
	close_fd(&handover->fd);
	close_fd(&handover->pid_fd);
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
	loop_cancel(handover->loop, &handover->patience);
	loop_remove(handover->loop, &handover->source);
	if (n > 0 && packet[0] == STATUS_GO)
		handover->ops->leave(handover->owner, handover->pid, now_ms);
	else
		handover->ops->stay(handover->owner,
				    handover->is_late ? "the successor did not serve in time"
						      : "the successor has ended before it served",
				    now_ms);
}

/* > 0: something was said; 0: it has ended; < 0: neither. */
static ssize_t peek(int fd)
{
	char letter;

	return recv(fd, &letter, 1, MSG_PEEK | MSG_DONTWAIT);
}

/*
 * Its GO, if it still comes, finds nobody, and ends it; one that is there already counts, and is
 * read next. A store must not be open twice, so one that has it and hangs is killed. Where that is
 * not ours to do, we find out whether the store can be had.
 */
static void on_impatient(struct loop_timer *timer, uint64_t now_ms)
{
	struct handover *handover = OWNER_OF(timer, struct handover, patience);

	(void)now_ms;
	shutdown(handover->fd, SHUT_RDWR);
	handover->is_late = true;
	if (handover->has_lent && handover->pid_fd >= 0 && peek(handover->fd) <= 0)
		pidfd_kill(handover->pid_fd, SIGKILL);
}

static int send_part(int fd, const struct handover_part *part)
{
	char packet[64];
	int len = snprintf(packet, sizeof(packet), "%c%s", part->is_managed ? MANAGED : LISTENER,
			   part->name);

	return pass_send(fd, packet, (size_t)len, part->fd);
}

static int send_listeners(struct handover *handover, const struct handover_part *parts,
			  size_t count, struct err *err)
{
	int r = loop_add(handover->loop, &handover->source, handover->fd, LOOP_READ);

	for (size_t i = 0; r == 0 && i < count; i++)
		r = send_part(handover->fd, &parts[i]);
	return r < 0 ? err_set(err, -r, "hand the listeners over") : 0;
}

static int send_store(struct handover *handover, struct err *err)
{
	_cleanup_close_ int store_fd = -1;
	int r = handover->ops->lend(handover->owner, &store_fd, err);

	if (r < 0)
		return r;
	handover->has_lent = store_fd >= 0;
	if (handover->has_lent)
		r = send_part(handover->fd, &(struct handover_part){ "store", store_fd, false });
	if (r == 0)
		r = status_send(handover->fd, STATUS_DONE, "");
	return r < 0 ? err_set(err, -r, "hand the store over") : 0;
}

/* Whoever has the conversation is who has asked, and not one with the same number after it. */
static int find_successor(int fd, pid_t pid)
{
	int pid_fd = pidfd_of(pid);

	if (pid_fd >= 0 && peek(fd) == 0)
		close_fd(&pid_fd);
	return pid_fd < 0 ? -1 : pid_fd;
}

struct handover *handover_begin(struct loop *loop, int fd, pid_t pid,
				const struct handover_part *parts, size_t count,
				const struct handover_ops *ops, void *owner, uint64_t now_ms)
{
	struct handover *handover = calloc(1, sizeof(*handover));
	struct err err;
	int r;

	if (!handover)
		die_no_memory();
	*handover = (struct handover){ .source = { .fd = -1, .on_ready = on_ready },
				       .patience.on_due = on_impatient,
				       .loop = loop,
				       .fd = fd,
				       .pid = pid,
				       .pid_fd = find_successor(fd, pid),
				       .ops = ops,
				       .owner = owner };
	ops->pause(owner);
	r = send_listeners(handover, parts, count, &err);
	if (r == 0)
		r = send_store(handover, &err);
	if (r == 0) {
		handover_set_patience(handover, now_ms + PATIENCE_MS);
		return handover;
	}
	if (status_send(fd, STATUS_FAILED, err.text) < 0)
		err_say(&err, EPIPE, "the successor has ended before it served");
	handover_free(handover);
	ops->stay(owner, err.text, now_ms);
	return NULL;
}

void handover_set_patience(struct handover *handover, uint64_t due_ms)
{
	loop_set_timer(handover->loop, &handover->patience, due_ms);
}
