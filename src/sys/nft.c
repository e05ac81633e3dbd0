/* SPDX-License-Identifier: MIT */
/*
 * The rules of the sandbox's network namespace, as one netlink batch.
 *
 * A packet that a program sends passes three chains. "track" leaves the agent's own traffic over
 * the loopback alone, so that it costs no entry in the kernel's table of connections. "capture"
 * sees the first one of each connection and rewrites where it goes; connection tracking does the
 * same to all that follow and undoes it in the replies, after the chains. "refuse" sees every
 * packet as it was rewritten: what was captured has a loopback destination by then, the replies to
 * it are known as such, and whatever else is left has nowhere to go. No packet could leave the
 * namespace without these rules either; they only decide who gets it.
 */
#include "sys/nft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_tuple_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_cttimeout.h>
#include <linux/netfilter_ipv4.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <stdbool.h>
#include <stddef.h>

#include "sys/netlink.h"

#define TABLE_NAME    "warder"
#define TIMEOUTS_NAME "tcp"

/*
 * How long connection tracking remembers a TCP connection in its last states. By default it
 * forgets one after 60 s on which the client has said all it will, and a reply that comes later
 * would reach nobody; and it remembers one that is over for 120 s.
 */
#define HALF_CLOSED_S (5 * 24 * 3600) /* as long as an open one */
#define OVER_S        10

static const struct chain {
	const char *name, *type;
	int32_t priority;
} chains[] = {
	{ "track", "filter", NF_IP_PRI_RAW },
	{ "capture", "nat", NF_IP_PRI_NAT_DST },
	{ "refuse", "filter", NF_IP_PRI_FILTER },
};

/* What of a packet is compared. */
enum field {
	FIELD_END,
	FIELD_NETWORK,   /* NFPROTO_... */
	FIELD_TRANSPORT, /* IPPROTO_... */
	FIELD_DIRECTION, /* IP_CT_DIR_...: to whom the connection was made, or back */
	FIELD_V4_TARGET_NET,
	FIELD_V6_TARGET,
	FIELD_SOURCE_PORT,
	FIELD_TARGET_PORT,
	FIELD_ICMP_TYPE,
};

static const unsigned char V4[] = { NFPROTO_IPV4 }, V6[] = { NFPROTO_IPV6 };

/* A property, found by its key, or bytes of a header. */
static const struct {
	const char *expression;
	uint32_t len, key;
	uint32_t base, offset;
	const unsigned char *network; /* which alone has it, or NULL */
} fields[] = {
	[FIELD_NETWORK] = { "meta", 1, .key = NFT_META_NFPROTO },
	[FIELD_TRANSPORT] = { "meta", 1, .key = NFT_META_L4PROTO },
	[FIELD_DIRECTION] = { "ct", 1, .key = NFT_CT_DIRECTION },
	[FIELD_V4_TARGET_NET] = { "payload", 1, .base = NFT_PAYLOAD_NETWORK_HEADER, .offset = 16,
				  .network = V4 },
	[FIELD_V6_TARGET] = { "payload", 16, .base = NFT_PAYLOAD_NETWORK_HEADER, .offset = 24,
			      .network = V6 },
	[FIELD_SOURCE_PORT] = { "payload", 2, .base = NFT_PAYLOAD_TRANSPORT_HEADER, .offset = 0 },
	[FIELD_TARGET_PORT] = { "payload", 2, .base = NFT_PAYLOAD_TRANSPORT_HEADER, .offset = 2 },
	[FIELD_ICMP_TYPE] = { "payload", 1, .base = NFT_PAYLOAD_TRANSPORT_HEADER, .offset = 0 },
};

/* Both kinds of keys are put in the same way. */
_Static_assert((int)NFTA_META_DREG == NFTA_CT_DREG && (int)NFTA_META_KEY == NFTA_CT_KEY,
	       "attributes of meta and ct");

#define MATCHES_MAX 2

enum action {
	ACTION_ACCEPT, /* by this chain */
	ACTION_NOTRACK,
	ACTION_SET_TIMEOUTS, /* and on to the next rule */
	ACTION_REDIRECT,
	ACTION_REJECT,
};

struct rule {
	const char *chain;
	struct {
		enum field field;
		const void *value;
	} matches[MATCHES_MAX];
	enum action action;
	const uint16_t *port; /* of a redirect */
};

static const unsigned char V4_LOOPBACK[] = { IN_LOOPBACKNET };
static const unsigned char V6_LOOPBACK[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 };
static const unsigned char TCP[] = { IPPROTO_TCP }, UDP[] = { IPPROTO_UDP };
static const unsigned char ICMP[] = { IPPROTO_ICMP };
static const unsigned char UNREACHABLE[] = { ICMP_DEST_UNREACH };
static const unsigned char REPLY[] = { IP_CT_DIR_REPLY };
static const unsigned char PORT_53[] = { 0, 53 };

static void begin(struct netlink_batch *batch, uint16_t type, uint16_t flags)
{
	const struct nfgenmsg head = { .nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0 };

	netlink_begin(batch, NFNL_SUBSYS_NFTABLES << 8 | type, flags, &head, sizeof(head));
}

static void put_limit(struct netlink_batch *batch, uint16_t type)
{
	const struct nfgenmsg head = { .nfgen_family = AF_UNSPEC,
				       .version = NFNETLINK_V0,
				       .res_id = htons(NFNL_SUBSYS_NFTABLES) };

	netlink_begin(batch, type, 0, &head, sizeof(head));
}

static void put_chain(struct netlink_batch *batch, const struct chain *chain)
{
	size_t hook;

	begin(batch, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL);
	netlink_put_text(batch, NFTA_CHAIN_TABLE, TABLE_NAME);
	netlink_put_text(batch, NFTA_CHAIN_NAME, chain->name);
	hook = netlink_nest(batch, NFTA_CHAIN_HOOK);
	netlink_put_be32(batch, NFTA_HOOK_HOOKNUM, NF_INET_LOCAL_OUT);
	netlink_put_be32(batch, NFTA_HOOK_PRIORITY, (uint32_t)chain->priority);
	netlink_unnest(batch, hook);
	netlink_put_text(batch, NFTA_CHAIN_TYPE, chain->type);
}

static void put_timeouts(struct netlink_batch *batch)
{
	const uint8_t transport = IPPROTO_TCP;
	const uint16_t network = htons(NFPROTO_INET);
	size_t data, values;

	begin(batch, NFT_MSG_NEWOBJ, NLM_F_CREATE | NLM_F_EXCL);
	netlink_put_text(batch, NFTA_OBJ_TABLE, TABLE_NAME);
	netlink_put_text(batch, NFTA_OBJ_NAME, TIMEOUTS_NAME);
	netlink_put_be32(batch, NFTA_OBJ_TYPE, NFT_OBJECT_CT_TIMEOUT);
	data = netlink_nest(batch, NFTA_OBJ_DATA);
	netlink_put(batch, NFTA_CT_TIMEOUT_L3PROTO, &network, sizeof(network));
	netlink_put(batch, NFTA_CT_TIMEOUT_L4PROTO, &transport, sizeof(transport));
	values = netlink_nest(batch, NFTA_CT_TIMEOUT_DATA);
	netlink_put_be32(batch, CTA_TIMEOUT_TCP_CLOSE_WAIT, HALF_CLOSED_S);
	netlink_put_be32(batch, CTA_TIMEOUT_TCP_TIME_WAIT, OVER_S);
	netlink_unnest(batch, values);
	netlink_unnest(batch, data);
}

/* An expression of a rule, whose own attributes follow. */
struct expression {
	size_t element, data;
};

static struct expression open_expression(struct netlink_batch *batch, const char *name)
{
	struct expression expression = { .element = netlink_nest(batch, NFTA_LIST_ELEM) };

	netlink_put_text(batch, NFTA_EXPR_NAME, name);
	expression.data = netlink_nest(batch, NFTA_EXPR_DATA);
	return expression;
}

static void close_expression(struct netlink_batch *batch, struct expression expression)
{
	netlink_unnest(batch, expression.data);
	netlink_unnest(batch, expression.element);
}

/* Into the register. */
static void put_load(struct netlink_batch *batch, enum field field)
{
	struct expression expression = open_expression(batch, fields[field].expression);

	if (fields[field].key) {
		netlink_put_be32(batch, NFTA_META_DREG, NFT_REG_1);
		netlink_put_be32(batch, NFTA_META_KEY, fields[field].key);
	} else {
		netlink_put_be32(batch, NFTA_PAYLOAD_DREG, NFT_REG_1);
		netlink_put_be32(batch, NFTA_PAYLOAD_BASE, fields[field].base);
		netlink_put_be32(batch, NFTA_PAYLOAD_OFFSET, fields[field].offset);
		netlink_put_be32(batch, NFTA_PAYLOAD_LEN, fields[field].len);
	}
	close_expression(batch, expression);
}

static void put_compare(struct netlink_batch *batch, const void *value, size_t len)
{
	struct expression expression = open_expression(batch, "cmp");
	size_t data;

	netlink_put_be32(batch, NFTA_CMP_SREG, NFT_REG_1);
	netlink_put_be32(batch, NFTA_CMP_OP, NFT_CMP_EQ);
	data = netlink_nest(batch, NFTA_CMP_DATA);
	netlink_put(batch, NFTA_DATA_VALUE, value, len);
	netlink_unnest(batch, data);
	close_expression(batch, expression);
}

/* The rule ends here for a packet whose field is another. */
static void put_match(struct netlink_batch *batch, enum field field, const void *value)
{
	if (fields[field].network) {
		put_load(batch, FIELD_NETWORK);
		put_compare(batch, fields[field].network, 1);
	}
	put_load(batch, field);
	put_compare(batch, value, fields[field].len);
}

static void put_accept(struct netlink_batch *batch)
{
	struct expression expression = open_expression(batch, "immediate");
	size_t data, verdict;

	netlink_put_be32(batch, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	data = netlink_nest(batch, NFTA_IMMEDIATE_DATA);
	verdict = netlink_nest(batch, NFTA_DATA_VERDICT);
	netlink_put_be32(batch, NFTA_VERDICT_CODE, NF_ACCEPT);
	netlink_unnest(batch, verdict);
	netlink_unnest(batch, data);
	close_expression(batch, expression);
}

static void put_set_timeouts(struct netlink_batch *batch)
{
	struct expression expression = open_expression(batch, "objref");

	netlink_put_be32(batch, NFTA_OBJREF_IMM_TYPE, NFT_OBJECT_CT_TIMEOUT);
	netlink_put_text(batch, NFTA_OBJREF_IMM_NAME, TIMEOUTS_NAME);
	close_expression(batch, expression);
}

/* To the loopback address, which is what a redirect of one's own output means. */
static void put_redirect(struct netlink_batch *batch, const uint16_t *port)
{
	struct expression expression = open_expression(batch, "immediate");
	size_t data;

	netlink_put_be32(batch, NFTA_IMMEDIATE_DREG, NFT_REG_1);
	data = netlink_nest(batch, NFTA_IMMEDIATE_DATA);
	netlink_put(batch, NFTA_DATA_VALUE, port, sizeof(*port));
	netlink_unnest(batch, data);
	close_expression(batch, expression);

	expression = open_expression(batch, "redir");
	netlink_put_be32(batch, NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1);
	close_expression(batch, expression);
}

static void put_reject(struct netlink_batch *batch)
{
	struct expression expression = open_expression(batch, "reject");
	const uint8_t code = NFT_REJECT_ICMPX_ADMIN_PROHIBITED;

	netlink_put_be32(batch, NFTA_REJECT_TYPE, NFT_REJECT_ICMPX_UNREACH);
	netlink_put(batch, NFTA_REJECT_ICMP_CODE, &code, sizeof(code));
	close_expression(batch, expression);
}

static void put_action(struct netlink_batch *batch, const struct rule *rule)
{
	switch (rule->action) {
	case ACTION_ACCEPT:
		put_accept(batch);
		break;
	case ACTION_NOTRACK:
		close_expression(batch, open_expression(batch, "notrack"));
		break;
	case ACTION_SET_TIMEOUTS:
		put_set_timeouts(batch);
		break;
	case ACTION_REDIRECT:
		put_redirect(batch, rule->port);
		break;
	case ACTION_REJECT:
		put_reject(batch);
		break;
	}
}

static void put_rule(struct netlink_batch *batch, const struct rule *rule, uint16_t flags)
{
	size_t expressions;

	begin(batch, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND | flags);
	netlink_put_text(batch, NFTA_RULE_TABLE, TABLE_NAME);
	netlink_put_text(batch, NFTA_RULE_CHAIN, rule->chain);
	expressions = netlink_nest(batch, NFTA_RULE_EXPRESSIONS);
	for (size_t i = 0; i < MATCHES_MAX && rule->matches[i].field != FIELD_END; i++)
		put_match(batch, rule->matches[i].field, rule->matches[i].value);
	put_action(batch, rule);
	netlink_unnest(batch, expressions);
}

/* In order; the first rule of a chain that matches decides. */
static void put_rules(struct netlink_batch *batch, const struct nft_ports *ports, bool has_timeouts)
{
	const uint16_t tcp = htons(ports->tcp), dns = htons(ports->dns);
	const struct rule rules[] = {
		/* Replies to what was captured can have a loopback destination, too. */
		{ "track", { { FIELD_SOURCE_PORT, &tcp } }, ACTION_ACCEPT, NULL },
		{ "track", { { FIELD_SOURCE_PORT, &dns } }, ACTION_ACCEPT, NULL },
		{ "track", { { FIELD_V4_TARGET_NET, V4_LOOPBACK } }, ACTION_NOTRACK, NULL },
		{ "track", { { FIELD_V6_TARGET, V6_LOOPBACK } }, ACTION_NOTRACK, NULL },

		{ "capture", { { FIELD_V4_TARGET_NET, V4_LOOPBACK } }, ACTION_ACCEPT, NULL },
		{ "capture", { { FIELD_V6_TARGET, V6_LOOPBACK } }, ACTION_ACCEPT, NULL },
		{ "capture", { { FIELD_TRANSPORT, TCP } }, ACTION_SET_TIMEOUTS, NULL },
		{ "capture",
		  { { FIELD_TRANSPORT, UDP }, { FIELD_TARGET_PORT, PORT_53 } },
		  ACTION_REDIRECT,
		  &dns },
		{ "capture",
		  { { FIELD_TRANSPORT, TCP }, { FIELD_TARGET_PORT, PORT_53 } },
		  ACTION_REDIRECT,
		  &dns },
		{ "capture", { { FIELD_TRANSPORT, TCP } }, ACTION_REDIRECT, &tcp },

		{ "refuse", { { FIELD_V4_TARGET_NET, V4_LOOPBACK } }, ACTION_ACCEPT, NULL },
		{ "refuse", { { FIELD_V6_TARGET, V6_LOOPBACK } }, ACTION_ACCEPT, NULL },
		{ "refuse", { { FIELD_DIRECTION, REPLY } }, ACTION_ACCEPT, NULL },
		/* What the last rule says; a sender's IPv4 address is the one it sent to. */
		{ "refuse",
		  { { FIELD_TRANSPORT, ICMP }, { FIELD_ICMP_TYPE, UNREACHABLE } },
		  ACTION_ACCEPT,
		  NULL },
		{ "refuse", { { FIELD_END, NULL } }, ACTION_REJECT, NULL },
	};

	/* Errors are reported unasked, before the one acknowledgement: of the last rule. */
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		if (has_timeouts || rules[i].action != ACTION_SET_TIMEOUTS)
			put_rule(batch, &rules[i], i + 1 == ARRAY_LEN(rules) ? NLM_F_ACK : 0);
}

static int load(const struct nft_ports *ports, bool has_timeouts)
{
	struct netlink_batch batch;

	netlink_init(&batch);
	put_limit(&batch, NFNL_MSG_BATCH_BEGIN);
	begin(&batch, NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL);
	netlink_put_text(&batch, NFTA_TABLE_NAME, TABLE_NAME);
	for (size_t i = 0; i < ARRAY_LEN(chains); i++)
		put_chain(&batch, &chains[i]);
	if (has_timeouts)
		put_timeouts(&batch);
	put_rules(&batch, ports, has_timeouts);
	put_limit(&batch, NFNL_MSG_BATCH_END);
	return netlink_talk(NETLINK_NETFILTER, &batch, 1);
}

int nft_redirect(const struct nft_ports *ports)
{
	int r = load(ports, true);

	/* A kernel without timeouts of one's own (CONFIG_NF_CONNTRACK_TIMEOUT) does the rest. */
	return r == -ENOENT || r == -EOPNOTSUPP ? load(ports, false) : r;
}

bool nft_is_missing(int r)
{
	/* No such chain or expression; no such part of netfilter; no netfilter; no inet tables. */
	return r == -ENOENT || r == -EOPNOTSUPP || r == -EPROTONOSUPPORT || r == -EAFNOSUPPORT;
}

int nft_try_nat(void)
{
	const struct nft_ports ports = { .tcp = 1, .dns = 2 };

	return nft_redirect(&ports);
}
