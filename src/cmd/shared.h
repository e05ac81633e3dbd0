/* SPDX-License-Identifier: MIT */
/* What a shared keeper has as a process, and the parts of `warder keeper`. */
#ifndef CMD_SHARED_H
#define CMD_SHARED_H

#include "cmd/handover.h"
#include "cmd/shared_charter.h"
#include "cmd/state.h"
#include "keeper/admin.h"
#include "keeper/control.h"
#include "keeper/reconciler.h"
#include "keeper/remote.h"
#include "store/lent.h"
#include "sys/listen_fds.h"
#include "sys/notify.h"

/* Who may register runs beside ourselves and root. */
struct shared_users {
	struct control_user users[SHARED_USERS_MAX];
	size_t count;
};

struct shared {
	struct keeper keeper;
	const struct shared_config *standing; /* as it was at the start, by which things are open */
	struct loop_source signals;
	struct loop_timer drain_timer, reopen_timer;
	struct loop_timer gates_timer;    /* of open gates, once we are replaced */
	struct loop_timer arriving_timer; /* ... and of those who were on the way in then */
	uint64_t reopen_until_ms, arriving_until_ms;
	struct control *control;
	struct remote *remote; /* or NULL */
	struct tls_service *service;
	struct admin admin;
	struct reconciler *reconciler; /* or NULL: there is no LiteLLM */
	struct notices notices;
	struct notify notify;
	struct listen_fds given; /* by the service manager, or by the keeper that was here before */
	int handover_fd, store_fd; /* of that; or -1 */
	struct lender *lender;     /* ... as long as it has runs, or NULL */
	struct handover *handover; /* to the next one, or NULL */
	bool has_lent, is_handed_over;
	struct {
		char path[STATE_PATH_MAX];
		bool is_given; /* by a keeper before us: ours when we have its place */
	} own_sockets[2];      /* that are removed at the end */
	size_t own_socket_count;
	bool has_place;
	struct shared_users users;
	char audit[STATE_PATH_MAX], control_path[STATE_PATH_MAX];
	struct shared_reading *reading; /* of a configuration that is read anew, or NULL */
	struct loop_timer reload_timer;
	bool is_reload_asked; /* ... and was to be again, since */
	int argc;             /* of the command line, which counts at every reading */
	char **argv;
};

static inline void shared_say(struct shared *shared, enum notice_event event, const char *text,
			      uint64_t now_ms)
{
	keeper_notice(&shared->keeper, event, now_ms, &(struct notice){ .text = text });
}

/* ---- shared_listen.c: stages of the start, and what belongs to them ---- */

int shared_find_users(struct shared *shared, const struct shared_config *config,
		      struct err *err) must_check;
int shared_find_control(struct shared *shared, const struct shared_config *config,
			struct err *err) must_check;
int shared_open_control(struct shared *shared, const struct shared_config *config,
			struct err *err) must_check;
int shared_open_admin(struct shared *shared, const struct shared_config *config,
		      struct err *err) must_check;
int shared_open_service(struct shared *shared, const struct shared_config *config,
			struct err *err) must_check;
int shared_open_remote(struct shared *shared, const struct shared_config *config,
		       struct err *err) must_check;
void shared_remove_sockets(const struct shared *shared);

/* What the successor does not listen on is removed now. */
void shared_leave_sockets(const struct shared *shared);

/* ... and for a reload: who they are now, and a certificate that was renewed, or NULL. */
int shared_list_users(const struct shared_config *config, struct shared_users *ret_users,
		      struct err *err) must_check;
int shared_renew_service(const struct shared *shared, const struct shared_config *config,
			 struct tls_service **ret_service, struct err *err) must_check;
void shared_set_service(struct shared *shared, struct tls_service *service);

/* ---- shared_store.c ---- */

/* One that may take its time; then the other kind, and whoever borrows it. */
int shared_open_far_store(struct shared *shared, const struct shared_config *config,
			  struct err *err) must_check;
int shared_open_store(struct shared *shared, const struct shared_config *config,
		      struct err *err) must_check;

/* Somebody wants to take our place. */
void shared_on_hand_over(void *owner, int fd, pid_t pid, uint64_t now_ms);
void shared_on_reopen_due(struct loop_timer *timer, uint64_t now_ms);
void shared_on_gates_due(struct loop_timer *timer, uint64_t now_ms);
void shared_on_arriving_due(struct loop_timer *timer, uint64_t now_ms);

/* ---- shared_reload.c ---- */

/* Begins to read the configuration anew; runs go on meanwhile. */
void shared_reload(struct shared *shared, uint64_t now_ms);
void shared_on_reload_due(struct loop_timer *timer, uint64_t now_ms);

/* A line about a configuration that counts now, and another where that allows nothing. */
void shared_say_served(struct shared *shared, enum notice_event event, const char *text,
		       uint64_t now_ms);

/* ---- shared.c ---- */

void shared_set_reconciler(struct shared *shared, const struct shared_config *config);

/* No more runs are taken, and with the last one it ends. */
void shared_on_drain_asked(void *owner, uint64_t now_ms);

#endif
