/* SPDX-License-Identifier: MIT */
/*
 * Runs on other machines: what comes through the door with a token that is good becomes a peer,
 * whose run is the one that the token names (INV-RUN-IDENTITY). A token opens one link at a time,
 * and nothing else; every one that does not is on record (keeper/refused.h). Who shows none is in
 * the log for the operator only.
 */
#ifndef KEEPER_REMOTE_H
#define KEEPER_REMOTE_H

#include "keeper/keeper.h"
#include "tls/service.h"

struct remote;

/* Takes the listener; the service and `audit`, the name of the log, are borrowed. */
int remote_new(struct keeper *keeper, int listener_fd, struct tls_service *service,
	       const char *audit, struct remote **ret_remote, struct err *err) must_check;

/* Callers from now on see another certificate. */
void remote_set_service(struct remote *remote, struct tls_service *service);

/* The listener, which stays the door's. */
int remote_listener(const struct remote *remote);

/* As door_pause and its kin; whoever has shown its token is not disturbed either. */
void remote_pause(struct remote *remote);
int remote_resume(struct remote *remote) must_check;
void remote_stop_listening(struct remote *remote);

/* Whether somebody is on the way in. */
bool remote_is_busy(const struct remote *remote);

/* Nobody comes in any more; links that there are go on. NULL is fine. */
void remote_free(struct remote *remote);

#endif
