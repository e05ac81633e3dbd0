/* SPDX-License-Identifier: MIT */
/* Hosts of the policy. */
#include "keeper/egress.h"

#include <errno.h>
#include <stdlib.h>

#include "base/die.h"
#include "http/path.h"

/* ---- refusals ---- */

static enum refusal refusal_of(const char *code)
{
	static const struct {
		const char *code;
		enum refusal refusal;
	} codes[] = {
		{ "host_not_allowed", REFUSAL_HOST_NOT_ALLOWED },
		{ "port_not_allowed", REFUSAL_PORT_NOT_ALLOWED },
		{ "method_not_allowed", REFUSAL_RULE_METHOD },
		{ "path_not_allowed", REFUSAL_PATH_NOT_ALLOWED },
	};

	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		if (strcmp(codes[i].code, code) == 0)
			return codes[i].refusal;
	return REFUSAL_DENIED;
}

/* The host as a rule would name it. */
static void name_place(const struct exchange *exchange, const struct authority *authority,
		       bool is_tls, char ret_text[AUTHORITY_TEXT_MAX])
{
	if (exchange->is_tunnel)
		authority_format(authority->host, authority->port, ret_text);
	else
		authority_format_short(authority->host, authority->port, is_tls, ret_text);
}

/* What the operator would have to say. */
static void set_hint(struct exchange *exchange, const struct authority *authority, bool is_tls,
		     enum refusal refusal)
{
	static char hint[HOST_MAX + 64]; /* until the refusal is written, which is next */
	char name[AUTHORITY_TEXT_MAX];

	if (refusal == REFUSAL_DENIED || refusal == REFUSAL_METHOD)
		return; /* nothing that could be added would help */
	name_place(exchange, authority, is_tls, name);
	snprintf(hint, sizeof(hint), "allow it with --allow-net %s%s",
		 exchange->is_tunnel ? "tcp://" : "", name);
	exchange->hint = hint;
	peer_note_refused_host(exchange->peer, hint + strlen("allow it with --allow-net "));
}

/* The same for a draft, where one is asked for: only what a rule could change. */
static void learn_refused(struct exchange *exchange, const struct link_open *open,
			  const struct authority *authority, enum refusal refusal)
{
	struct learn *learn = exchange->peer->learn;
	struct bytes query, path = http_path_split(open->path, &query);
	char place[AUTHORITY_TEXT_MAX];

	if (!learn || refusal == REFUSAL_METHOD)
		return;
	name_place(exchange, authority, open->is_tls, place);
	learn_note(learn, exchange->is_tunnel ? (struct bytes){ NULL, 0 } : open->method, place,
		   path, refusal == REFUSAL_DENIED);
}

/* ---- requests ---- */

static enum refusal judge(struct exchange *exchange, const struct link_open *open,
			  const struct authority *authority)
{
	const struct policy *policy = &exchange->terms->charter->policy;
	struct verdict_info info;

	if (open->kind == LINK_KIND_TUNNEL) {
		exchange->is_tunnel = true;
		return policy_is_tunnel(policy, authority) ? REFUSAL_NONE
							   : REFUSAL_HOST_NOT_ALLOWED;
	}
	if (bytes_equal(open->method, BYTES("TRACE")) ||
	    bytes_equal(open->method, BYTES("CONNECT")))
		return REFUSAL_METHOD;
	policy_judge(policy, authority, open->is_tls, open->method, open->path, &info);
	exchange->rule = info.rule;
	return info.verdict == VERDICT_ALLOW ? REFUSAL_NONE : refusal_of(info.refusal_code);
}

/* What is known to go out; of a body without a length, each piece is taken as it comes. */
static enum refusal take_bytes(struct exchange *exchange, const struct authority *authority)
{
	struct budget *budget = &exchange->run->budget;
	struct budget_host *account = budget_find(budget, authority->host);

	if (!budget_take(budget, account, exchange->head_len + exchange->body_left))
		return REFUSAL_EGRESS_BUDGET;
	exchange->account = account;
	return REFUSAL_NONE;
}

void egress_judge(struct exchange *exchange, const struct link_open *open, uint64_t now_ms)
{
	struct terms *terms = exchange->terms;
	struct bytes query, path = http_path_split(open->path, &query);
	struct authority authority;
	char place[AUTHORITY_TEXT_MAX];
	enum refusal refusal = REFUSAL_BAD_HOST;

	if (authority_parse(open->host, 0, &authority) == 0 && authority.port != 0) {
		authority_format(authority.host, authority.port, place);
		exchange->place = strdup(place);
		if (!exchange->place)
			die_no_memory();
		refusal = judge(exchange, open, &authority);
		if (refusal != REFUSAL_NONE) {
			set_hint(exchange, &authority, open->is_tls, refusal);
			learn_refused(exchange, open, &authority, refusal);
		}
	}
	if (refusal == REFUSAL_NONE) {
		exchange->upstream = upstream_find(&terms->hosts, terms->charter->config,
						   &authority, open->is_tls);
		refusal = exchange->upstream ? REFUSAL_NONE : REFUSAL_TOO_MANY_HOSTS;
		if (exchange->upstream)
			exchange->upstream->use_count++;
	}
	if (refusal == REFUSAL_NONE && !exchange->is_tunnel)
		refusal = egress_write_request(exchange, open, &authority);
	if (refusal == REFUSAL_NONE)
		refusal = take_bytes(exchange, &authority);
	if (refusal != REFUSAL_NONE) {
		exchange_refuse(exchange, refusal, open->method, path, now_ms);
		return;
	}
	exchange_allow(exchange, open->method, path, now_ms);
}
