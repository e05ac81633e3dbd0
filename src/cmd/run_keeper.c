/* SPDX-License-Identifier: MIT */
/* A run and its shared keeper. */
#include "cmd/run_keeper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/words.h"
#include "cmd/control_client.h"
#include "keeper/control.h"
#include "sys/status.h"

#define KEEPER_READY_MS 30000 /* to be reached, and to tell what a run has to know */

static int register_run(struct run_gateway *gateway, const struct run_config *config,
			struct err *err)
{
	struct buf words;
	int r;

	buf_init(&words, CONTROL_PACKET_MAX);
	words_add_pair(&words, "run-id", gateway->run_id);
	words_add_pair_number(&words, "attempt", config->attempt);
	if (config->keeper.billing_account)
		words_add_pair(&words, "account", config->keeper.billing_account);
	for (size_t i = 0; i < config->keeper.metadata_count; i++) {
		buf_add_text(&words, "metadata.");
		words_add_pair(&words, config->keeper.metadata[i].name,
			       config->keeper.metadata[i].value);
	}
	r = control_send(gateway->gateway.status_fd, CONTROL_REGISTER, words.data, words.len, err);
	buf_fini(&words);
	return r;
}

/*
 * What a keeper may tell a run. It is the operator's, but it may be on another machine, and must
 * not be the one to say what of this machine is shown to the agent.
 */
static bool check_keeper_words(struct bytes words)
{
	static const struct bytes known[] = {
		BYTES("--run-id"),
		BYTES("--attempt"),
		BYTES("--env"),
		BYTES("--llm"),
		BYTES("--llm-provider"),
		BYTES("--allow-net"),
		BYTES("--deny-net"),
		BYTES("--secret"),
		BYTES("--secret-cleartext"),
		BYTES("--secret-ip-literals"),
		BYTES("--dns"),
		BYTES("--connections"),
	};
	struct bytes word, value;

	while (bytes_split(&words, '\0', &word)) {
		if (!bytes_is_any_nocase(word, known, ARRAY_LEN(known)) ||
		    !bytes_split(&words, '\0', &value))
			return false;
		if (bytes_equal_nocase(word, BYTES("--env")) && !memchr(value.data, '=', value.len))
			return false; /* it would be one of our own variables */
	}
	return words.len == 0;
}

/* Who the run is, is the keeper's to say: by a token, or for users of another name. */
static int apply_keeper_words(struct run_gateway *gateway, struct run_config *config,
			      struct bytes words, struct err *err)
{
	const char *given = config->run_id;
	int r = check_keeper_words(words)
			? run_config_add_words(config, words, err)
			: err_say(err, EPROTO, "the keeper says what it must not");

	if (r < 0)
		return r;
	if (given && strcmp(given, config->run_id) != 0)
		return err_say(
			err, EINVAL,
			"--run-id: the keeper says that this is run %s; leave the option away",
			config->run_id);
	snprintf(gateway->run_id, sizeof(gateway->run_id), "%s", config->run_id);
	return 0;
}

/* The next packet of a keeper that may not be in a hurry, or never come to an end. */
static int receive_in_time(struct run_gateway *gateway, uint64_t deadline_ms, char *text,
			   size_t *ret_len)
{
	uint64_t now_ms = clock_now_ms();

	return now_ms < deadline_ms ? gateway_receive(&gateway->gateway,
						      (int)(deadline_ms - now_ms), text, ret_len)
				    : -ETIMEDOUT;
}

/* What the keeper says until it is ready: options, as of a file, and placeholders. */
static int read_keeper_words(struct run_gateway *gateway, struct run_config *config,
			     struct err *err)
{
	uint64_t deadline_ms = clock_now_ms() + KEEPER_READY_MS;
	char *text = malloc(STATUS_TEXT_MAX + 1);
	struct buf words;
	size_t len;
	int type = 0, r = 0;

	if (!text)
		die_no_memory();
	buf_init(&words, STATUS_TEXT_MAX);
	while (words.len < STATUS_TEXT_MAX &&
	       ((type = receive_in_time(gateway, deadline_ms, text, &len)) == STATUS_WORDS ||
		type == STATUS_LINK))
		if (type == STATUS_WORDS)
			buf_add(&words, text, len);
	if (words.len == STATUS_TEXT_MAX)
		r = err_say(err, E2BIG, "the keeper's configuration is too long");
	else if (type == STATUS_FAILED)
		r = err_say(err, EINVAL, "%.500s", text);
	else if (type == -ETIMEDOUT)
		r = err_say(err, ETIMEDOUT, "the keeper did not let the run begin within %d s",
			    KEEPER_READY_MS / 1000);
	else if (type != STATUS_READY)
		r = err_say(err, EIO, "the keeper ended before it was ready");
	free(text);
	gateway->words = words.data;
	gateway->is_ready = true;
	return r < 0 ? r
		     : apply_keeper_words(gateway, config, (struct bytes){ words.data, words.len },
					  err);
}

/* At its control socket, or by a token over the network. */
static int reach_keeper(struct run_gateway *gateway, const struct run_config *config,
			struct err *err)
{
	int r;

	if (strncmp(config->keeper_address, "tls:", 4) == 0)
		return gateway_start_carrier(&gateway->gateway, config->keeper_address + 4,
					     config->keeper_ca, config->keeper_token, err);
	r = control_connect(config->keeper_address, &gateway->gateway.status_fd, err);
	return r < 0 ? r : register_run(gateway, config, err);
}

int run_keeper_begin(struct run_gateway *gateway, struct run_config *config, struct err *err)
{
	int r = reach_keeper(gateway, config, err);

	return r < 0 ? r : read_keeper_words(gateway, config, err);
}
