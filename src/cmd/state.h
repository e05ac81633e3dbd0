/* SPDX-License-Identifier: MIT */
/* Where a user's own state is: the audit log, unless they say where. */
#ifndef CMD_STATE_H
#define CMD_STATE_H

#include "base/err.h"

#define STATE_PATH_MAX 4096

/* `given`, or the default below XDG_STATE_HOME or HOME. `ret_path` has STATE_PATH_MAX bytes. */
int state_audit_path(const char *given, char *ret_path, struct err *err) must_check;

/* Makes the directories on the way to the default place; one that was given must have them. */
int state_make_parents(const char *given, char *path, struct err *err) must_check;

/* Where a shared keeper is found when nobody says where. */
int state_control_path(char *ret_path, struct err *err) must_check;

/* Makes every directory on the way to a file. */
int state_make_directory(char *path, struct err *err) must_check;

/* Where it keeps its state; the directory is made. */
int state_store_path(char *ret_path, struct err *err) must_check;

#endif
