/* SPDX-License-Identifier: MIT */
/*
 * The carrier as a process, in the place of a private keeper: descriptor 3 is where it reports,
 * descriptor 4 the gate's end of the link.
 *
 * The token is the only thing here that is worth anything, and opens one run's link. It is read
 * from its source, sent, and wiped; by then this process can no more open a file or a socket than
 * the gate can.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/units.h"
#include "carrier/carrier.h"
#include "cmd/cmd.h"
#include "config/options.h"
#include "gate/confine.h"
#include "keeper/token.h"
#include "sys/heap.h"
#include "sys/process.h"
#include "sys/status.h"
#include "warder.h"

#define STATUS_FD 3
#define LINK_FD   4
#define HOST_MAX  255

struct carrier_options {
	const char *to, *ca, *token;
};

static const struct option rows[] = {
	{ "to", 0, OPTION_STRING, NULL, offsetof(struct carrier_options, to), 0, 0, "HOST:PORT",
	  "the keeper", "" },
	{ "ca", 0, OPTION_STRING, NULL, offsetof(struct carrier_options, ca), 0, 0, "FILE",
	  "the authorities of its certificate, instead of the system's", "" },
	{ "token", 0, OPTION_STRING, NULL, offsetof(struct carrier_options, token), 0, 0, "SOURCE",
	  "the run token: env:NAME, file:PATH or exec:COMMAND", "" },
};

static const struct option_table table = { "carrier", rows, ARRAY_LEN(rows) };

static struct secret *token;

/* "host:port" or "[address]:port". */
static int read_address(const char *text, char *ret_host, uint16_t *ret_port, struct err *err)
{
	const char *colon = strrchr(text, ':');
	struct bytes host = { text, colon ? (size_t)(colon - text) : 0 };
	uint64_t port = 0;

	if (host.len > 2 && host.data[0] == '[' && host.data[host.len - 1] == ']')
		host = (struct bytes){ host.data + 1, host.len - 2 };
	else if (host.len > 0 && memchr(host.data, ':', host.len))
		host.len = 0; /* an address without its brackets */
	if (host.len == 0 || host.len > HOST_MAX || units_parse_count(colon + 1, &port) < 0 ||
	    port == 0 || port > UINT16_MAX)
		return err_say(err, EINVAL,
			       "'%.200s' is not the address of a keeper: HOST:PORT or "
			       "[ADDRESS]:PORT",
			       text);
	memcpy(ret_host, host.data, host.len);
	ret_host[host.len] = '\0';
	*ret_port = (uint16_t)port;
	return 0;
}

/* A text for people, or for one line of a file. */
static bool is_line(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] < ' ' || text.data[i] == 0x7f)
			return false;
	return true;
}

/* The keeper is on another machine: what it says is what a keeper may say, or nothing. */
static int on_notice(char letter, struct bytes text)
{
	static const char letters[] = { STATUS_WORDS,   STATUS_READY,   STATUS_FAILED,
					STATUS_REFUSED, STATUS_LEARNED, STATUS_SUMMARY };

	if (!memchr(letters, letter, sizeof(letters)))
		return -EPROTO;
	if (letter != STATUS_WORDS && !is_line(text))
		return -EPROTO;
	return status_send_bytes(STATUS_FD, (enum status_type)letter, text);
}

/* INV-SECRETS-HOST-ONLY: what may carry the agent's bytes from now on does so without it. */
static int on_connected(struct err *err)
{
	struct err why;

	secret_free(token);
	token = NULL;
	if (confine(&why) < 0)
		return err_say(err, why.code, "confine the carrier: %.400s", why.text);
	return 0;
}

static int open_token(const char *source, struct err *err)
{
	int r = secret_open(source, &token, err);

	secret_forget_sources();
	if (r < 0)
		return r;
	if (secret_get(token).len >= TOKEN_MAX || !is_line(secret_get(token)))
		return err_say(err, EINVAL, "what is in the source of the run token is no token");
	return 0;
}

static int carry(const struct carrier_options *options, struct err *err)
{
	char host[HOST_MAX + 1];
	struct carrier_config config = {
		.host = host,
		.ca = options->ca,
		.gate_fd = LINK_FD,
		.starter_fd = STATUS_FD,
		.on_notice = on_notice,
		.on_connected = on_connected,
	};
	int r;

	if (!options->to || !options->token)
		return err_say(err, EINVAL, "carrier: needs --to and --token");
	r = read_address(options->to, host, &config.port, err);
	if (r == 0)
		r = open_token(options->token, err);
	if (r < 0)
		return r;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(err, errno, "drop the carrier's privileges");
	config.token = secret_get(token);
	return carrier_run(&config, err);
}

int cmd_carrier(int argc, char **argv)
{
	struct carrier_options options = { .to = NULL };
	struct err err = { 0 };
	int rest = 0, r;

	if (fcntl(STATUS_FD, F_SETFD, FD_CLOEXEC) < 0 || fcntl(LINK_FD, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(LINK_FD, F_SETFL, O_NONBLOCK) < 0) {
		fprintf(stderr, "warder-gateway: the carrier is started by warder, not by hand\n");
		return WARDER_EXIT_FAILED;
	}
	/* Whatever becomes of it: it does not outlive whoever started it. */
	if (process_hide() < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return WARDER_EXIT_FAILED;
	signal(SIGPIPE, SIG_IGN);
	heap_settle();
	r = options_parse(&table, &options, argc, argv, &rest, &err);
	if (r == 0)
		r = carry(&options, &err);
	secret_free(token);
	/* Else there is nobody left to tell, or it has been told. */
	if (r < 0 && r != -ECANCELED && status_send(STATUS_FD, STATUS_FAILED, err.text) < 0)
		fprintf(stderr, "warder: %s\n", err.text);
	return r < 0 ? WARDER_EXIT_FAILED : 0;
}
