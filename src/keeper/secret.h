/* SPDX-License-Identifier: MIT */
/*
 * A secret: a type of its own, with no form in which it could be printed. Only keeper/
 * opens one (INV-SECRETS-HOST-ONLY); it is wiped when it is freed.
 */
#ifndef KEEPER_SECRET_H
#define KEEPER_SECRET_H

#include "base/bytes.h"
#include "base/err.h"

#define SECRET_MAX 65536

struct secret;
struct command;

/*
 * Opens a source: "env:NAME", "file:PATH" or "exec:COMMAND", which the shell runs and whose
 * output counts. A last line end does not count. The caller owns *ret_secret. An error names
 * the source, never what is in it.
 */
int secret_open(const char *source, struct secret **ret_secret, struct err *err) must_check;

/*
 * Values that a configuration file has itself, for sources of the form "config:NAME". Both are
 * borrowed until secret_forget_sources, which wipes the value.
 */
void secret_lend(const char *name, char *value);

/*
 * A command that is done, for sources of the form "exec:COMMAND": it is not run again. Borrowed
 * until all are forgotten.
 */
#define SECRET_OUTPUTS_MAX 128
void secret_lend_output(const struct command *command);
void secret_forget_outputs(void);

/* Wipes every variable that a secret was read from: it is not needed there any more. */
void secret_forget_sources(void);

/* Wipes what was lent, and leaves the variables: they are read again at a reload. */
void secret_forget_lent(void);

/* The value, for as long as the secret lives. */
struct bytes secret_get(const struct secret *secret);

void secret_free(struct secret *secret);

#endif
