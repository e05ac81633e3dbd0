/* SPDX-License-Identifier: MIT */
/*
 * A gateway: the keeper and the gate of one run, as two processes of the second program.
 *
 * Both end with what they are given here: the gate when the control socket closes, the
 * keeper when the gate is gone. So whatever happens to the starter, nothing stays behind.
 */
#ifndef CMD_GATEWAY_H
#define CMD_GATEWAY_H

#include <stdint.h>
#include <sys/types.h>

#include "base/bytes.h"
#include "base/err.h"
#include "config/keeper_config.h"

struct gateway {
	pid_t keeper, gate; /* 0: not started */
	int control_fd;     /* listeners are sent here */
	int status_fd;      /* the keeper's reports */
	int link_fd;        /* the gate's end of the link, until there is a gate */
};

#define GATEWAY_INIT                                                                               \
	{                                                                                          \
		.control_fd = -1, .status_fd = -1, .link_fd = -1                                   \
	}

/* What the keeper is told beside the words of its options. */
struct gateway_run {
	const char *config;          /* a file, or NULL */
	const char *config_variable; /* or the variable that has such a text */
	const char *const *words;
	size_t word_count;
	const char *run_id; /* or NULL */
	uint64_t attempt;
	const char *token_secret; /* or NULL */
	const char *learn;        /* likewise */
	bool is_verbose;
	bool has_egress; /* hosts are to be reached, not only the LLM */
	uint64_t connections;
};

struct gateway_summary {
	bool is_complete; /* both ended in good order */
	uint64_t allowed, refused;
	char audit[4096];
	char refused_hosts[16][320]; /* as an option names them */
	size_t refused_host_count;
	uint64_t learned; /* rules of a draft */
};

/*
 * Wipes the variables that keys come from out of our own memory, and so out of that of
 * whatever is forked from it: only the keeper has them (INV-SECRETS-HOST-ONLY).
 */
void gateway_wipe_sources(const struct keeper_config *config);

/*
 * The same for the words of a keeper's options: texts, each with its NUL. False when they are
 * about hosts, which only a sandbox leads here.
 */
bool gateway_wipe_words(struct bytes words);

/*
 * With a shared keeper only the gate is ours: gateway->status_fd is the connection that the run is
 * registered at. This is status_receive for it, which keeps the link that comes with STATUS_LINK.
 * gateway_start_gate follows when it is known what the gate has to do.
 */
int gateway_receive(struct gateway *gateway, int wait_ms, char *ret_text,
		    size_t *ret_len) must_check;
/*
 * The same with a keeper on another machine: a carrier is started, which stands where a private
 * keeper would. The source of the token is wiped from our own memory.
 */
int gateway_start_carrier(struct gateway *gateway, const char *to, const char *ca,
			  const char *token, struct err *err) must_check;

int gateway_start_gate(struct gateway *gateway, const struct gateway_run *run,
		       struct err *err) must_check;

/* Starts the keeper, wipes the sources that `config` names, and starts the gate. */
int gateway_start(struct gateway *gateway, const struct gateway_run *run,
		  const struct keeper_config *config, struct err *err) must_check;

/* Ends both, and waits for them. */
void gateway_stop(struct gateway *gateway, struct gateway_summary *ret_summary);

#endif
