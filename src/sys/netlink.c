/* SPDX-License-Identifier: MIT */
/* Netlink messages, and the kernel's answers to them. */
#include "sys/netlink.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

void netlink_init(struct netlink_batch *batch)
{
	batch->len = 0;
	batch->message = NULL;
}

static void *reserve(struct netlink_batch *batch, size_t len)
{
	void *at = batch->data + batch->len;

	assert(NLMSG_ALIGN(len) <= sizeof(batch->data) - batch->len);
	memset(at, 0, NLMSG_ALIGN(len));
	batch->len += NLMSG_ALIGN(len);
	if (batch->message)
		batch->message->nlmsg_len += (uint32_t)NLMSG_ALIGN(len);
	return at;
}

void netlink_begin(struct netlink_batch *batch, uint16_t type, uint16_t flags, const void *head,
		   size_t len)
{
	batch->message = NULL;
	batch->message = reserve(batch, NLMSG_HDRLEN);
	batch->message->nlmsg_len = NLMSG_HDRLEN;
	batch->message->nlmsg_type = type;
	batch->message->nlmsg_flags = NLM_F_REQUEST | flags;
	memcpy(reserve(batch, len), head, len);
}

void netlink_put(struct netlink_batch *batch, uint16_t type, const void *value, size_t len)
{
	struct nlattr *attr = reserve(batch, NLA_HDRLEN + len);

	attr->nla_type = type;
	attr->nla_len = (uint16_t)(NLA_HDRLEN + len);
	memcpy((unsigned char *)attr + NLA_HDRLEN, value, len);
}

void netlink_put_text(struct netlink_batch *batch, uint16_t type, const char *text)
{
	netlink_put(batch, type, text, strlen(text) + 1);
}

void netlink_put_u32(struct netlink_batch *batch, uint16_t type, uint32_t value)
{
	netlink_put(batch, type, &value, sizeof(value));
}

void netlink_put_be32(struct netlink_batch *batch, uint16_t type, uint32_t value)
{
	netlink_put_u32(batch, type, htonl(value));
}

size_t netlink_nest(struct netlink_batch *batch, uint16_t type)
{
	size_t nest = batch->len;
	struct nlattr *attr = reserve(batch, NLA_HDRLEN);

	attr->nla_type = type | NLA_F_NESTED;
	return nest;
}

void netlink_unnest(struct netlink_batch *batch, size_t nest)
{
	uint16_t len = (uint16_t)(batch->len - nest);

	memcpy(batch->data + nest + offsetof(struct nlattr, nla_len), &len, sizeof(len));
}

/* Reads one datagram of answers: how many are acknowledgements, or the first error. */
static int count_acks(int fd)
{
	_Alignas(struct nlmsghdr) unsigned char data[4096];
	/* The kernel answers before sendto(2) returns: there is nothing to wait for. */
	ssize_t n = recv(fd, data, sizeof(data), MSG_DONTWAIT);
	struct nlmsghdr head;
	int32_t error;
	int count = 0;

	if (n < 0)
		return errno == EAGAIN ? -EPROTO : -errno;
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
		count++;
	}
	return count;
}

int netlink_talk(int protocol, const struct netlink_batch *batch, int acks)
{
	_cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };

	if (fd < 0)
		return -errno;
	if (sendto(fd, batch->data, batch->len, 0, (struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		return -errno;
	while (acks > 0) {
		int n = count_acks(fd);

		if (n < 0)
			return n;
		acks -= n;
	}
	return 0;
}
