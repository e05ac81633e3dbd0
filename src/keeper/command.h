/* SPDX-License-Identifier: MIT */
/*
 * A command that prints a secret. The shell runs it, beside whatever else the loop does, until it
 * has ended and whoever it started has closed the output, or its time is over. What it has printed
 * is wiped with it.
 */
#ifndef KEEPER_COMMAND_H
#define KEEPER_COMMAND_H

#include "base/bytes.h"
#include "base/err.h"
#include "event/loop.h"

#define COMMAND_MS 30000 /* how long it may take */

struct command;

struct command_config {
	const char *text; /* for the shell, borrowed */
	uint64_t most_ms;
	/* Told once, and never from within command_start; it may free the command. */
	void (*on_done)(struct command *command, uint64_t now_ms);
	void *owner;
	/* Without a terminal, and what it has started ends with it. */
	bool is_apart;
};

/* command_free is owed, except on failure. */
int command_start(struct loop *loop, const struct command_config *config,
		  struct command **ret_command, struct err *err) must_check;

/* Starts it, and waits for it: on_done is not needed. */
int command_run(const struct command_config *config, struct command **ret_command,
		struct err *err) must_check;

/* When it is done: what it has printed, for as long as the command lives; or why that is nothing.
 */
int command_output(const struct command *command, struct bytes *ret_output,
		   struct err *err) must_check;

const char *command_text(const struct command *command);
void *command_owner(const struct command *command);

/* One that is not done is ended. NULL is fine. */
void command_free(struct command *command);

#endif
