/* SPDX-License-Identifier: MIT */
/*
 * Links that were sent to a user and not taken. Such a descriptor is in flight, and counts against
 * all that our own user may have so, for as long as the packet lies there, whether we have closed
 * the connection or not. So the connection of a visitor who leaves one behind stays open to us, and
 * counts as the user's, until it is read or the other side is gone.
 */
#ifndef KEEPER_UNREAD_H
#define KEEPER_UNREAD_H

#include "keeper/keeper.h"

struct unread;

/* Takes the connection of a visitor who was sent a link; nothing more is said there. */
void unread_keep(struct keeper *keeper, uid_t uid, int fd);

/* How many of a user's there are. */
size_t unread_count(const struct keeper *keeper, uid_t uid);

/* Ends them all. */
void unread_drop(struct keeper *keeper);

#endif
