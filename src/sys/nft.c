/* SPDX-License-Identifier: MIT */
/* One netlink batch: begin, a table, a NAT chain, end. */
#include "sys/nft.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netlink.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#define TABLE_NAME "warder"

struct batch {
	_Alignas(struct nlmsghdr) unsigned char data[1024];
	size_t len;
	struct nlmsghdr *message; /* the one under construction */
};

static void *reserve(struct batch *batch, size_t len)
{
	void *at = batch->data + batch->len;

	assert(NLMSG_ALIGN(len) <= sizeof(batch->data) - batch->len);
	memset(at, 0, NLMSG_ALIGN(len));
	batch->len += NLMSG_ALIGN(len);
	if (batch->message)
		batch->message->nlmsg_len += (uint32_t)NLMSG_ALIGN(len);
	return at;
}

static void begin(struct batch *batch, uint16_t type, uint16_t flags, uint8_t family,
		  uint16_t resource)
{
	struct nfgenmsg *head;

	batch->message = NULL;
	batch->message = reserve(batch, sizeof(struct nlmsghdr));
	batch->message->nlmsg_len = sizeof(struct nlmsghdr);
	batch->message->nlmsg_type = type;
	batch->message->nlmsg_flags = NLM_F_REQUEST | flags;
	head = reserve(batch, sizeof(*head));
	head->nfgen_family = family;
	head->version = NFNETLINK_V0;
	head->res_id = htons(resource);
}

static struct nlattr *put(struct batch *batch, uint16_t type, const void *bytes, size_t len)
{
	struct nlattr *attr = reserve(batch, NLA_HDRLEN + len);

	attr->nla_type = type;
	attr->nla_len = (uint16_t)(NLA_HDRLEN + len);
	if (len > 0)
		memcpy((unsigned char *)attr + NLA_HDRLEN, bytes, len);
	return attr;
}

static void put_number(struct batch *batch, uint16_t type, uint32_t value)
{
	value = htonl(value);
	put(batch, type, &value, sizeof(value));
}

static void put_text(struct batch *batch, uint16_t type, const char *text)
{
	put(batch, type, text, strlen(text) + 1);
}

static void put_chain(struct batch *batch)
{
	struct nlattr *hook;

	put_text(batch, NFTA_CHAIN_TABLE, TABLE_NAME);
	put_text(batch, NFTA_CHAIN_NAME, "out");
	hook = put(batch, NFTA_CHAIN_HOOK | NLA_F_NESTED, NULL, 0);
	put_number(batch, NFTA_HOOK_HOOKNUM, NF_INET_LOCAL_OUT);
	put_number(batch, NFTA_HOOK_PRIORITY, (uint32_t)NF_IP_PRI_NAT_DST);
	hook->nla_len = (uint16_t)(batch->data + batch->len - (unsigned char *)hook);
	put_text(batch, NFTA_CHAIN_TYPE, "nat");
}

/* Reads answers until one reports an error or the last acknowledgement is in. */
static int read_answers(int fd, int expected)
{
	unsigned char data[4096];

	while (expected > 0) {
		ssize_t n = recv(fd, data, sizeof(data), 0);
		struct nlmsghdr head;
		int32_t error;

		if (n < 0)
			return -errno;
		for (size_t at = 0; at + sizeof(head) + sizeof(error) <= (size_t)n;
		     at += NLMSG_ALIGN(head.nlmsg_len)) {
			memcpy(&head, data + at, sizeof(head));
			memcpy(&error, data + at + sizeof(head), sizeof(error));
			if (head.nlmsg_len < sizeof(head))
				return -EPROTO;
			if (head.nlmsg_type != NLMSG_ERROR)
				continue;
			if (error)
				return error;
			expected--;
		}
	}
	return 0;
}

int nft_try_nat(void)
{
	_cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct batch batch = { .len = 0 };

	if (fd < 0)
		return -errno;
	begin(&batch, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
	begin(&batch, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_ACK,
	      NFPROTO_INET, 0);
	put_text(&batch, NFTA_TABLE_NAME, TABLE_NAME);
	begin(&batch, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_ACK,
	      NFPROTO_INET, 0);
	put_chain(&batch);
	begin(&batch, NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
	if (sendto(fd, batch.data, batch.len, 0, (struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		return -errno;
	return read_answers(fd, 2);
}
