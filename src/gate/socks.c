/* SPDX-License-Identifier: MIT */
/* Two messages of the client, each of which says how long it is as it goes on. */
#include "gate/socks.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>

#define VERSION       5
#define NO_AUTH       0
#define NOTHING_FITS  0xff
#define CONNECT       1
#define ADDRESS_START 4 /* in a request: version, command, 0, kind of address */

enum address_kind {
	ADDRESS_V4 = 1,
	ADDRESS_NAME = 3,
	ADDRESS_V6 = 4,
};

static const char no_auth_reply[] = { VERSION, NO_AUTH };
static const char nothing_fits_reply[] = { VERSION, (char)NOTHING_FITS };

void socks_format_reply(enum socks_code code, char ret_reply[SOCKS_REPLY_LEN])
{
	memset(ret_reply, 0, SOCKS_REPLY_LEN);
	ret_reply[0] = VERSION;
	ret_reply[1] = (char)code;
	ret_reply[3] = ADDRESS_V4;
}

/* ---- how long a message is, as far as can be told yet ---- */

static size_t greeting_len(const struct socks *socks)
{
	return socks->len < 2 ? 2 : 2 + (size_t)socks->message[1];
}

/* An address of a kind that we do not know has no length: the message ends before it. */
static size_t request_len(const struct socks *socks)
{
	const unsigned char *message = socks->message;

	if (socks->len < ADDRESS_START)
		return ADDRESS_START;
	switch (message[3]) {
	case ADDRESS_V4:
		return ADDRESS_START + 4 + 2;
	case ADDRESS_V6:
		return ADDRESS_START + 16 + 2;
	case ADDRESS_NAME:
		if (socks->len == ADDRESS_START)
			return ADDRESS_START + 1;
		return ADDRESS_START + 1 + (size_t)message[ADDRESS_START] + 2;
	default:
		return ADDRESS_START;
	}
}

/* False when there is not enough. */
static bool collect(struct socks *socks, struct bytes *input)
{
	size_t len;

	while ((len = socks->state == SOCKS_GREETING ? greeting_len(socks) : request_len(socks)) >
	       socks->len) {
		size_t wanted = len - socks->len;

		if (wanted > input->len)
			wanted = input->len;
		if (wanted == 0)
			return false;
		memcpy(socks->message + socks->len, bytes_take(input, wanted).data, wanted);
		socks->len += wanted;
		if (socks->message[0] != VERSION)
			return true; /* it says nothing about its length to us */
	}
	return true;
}

/* ---- what they say ---- */

static enum socks_event close_with(struct socks *socks, struct bytes reply,
				   struct socks_result *ret_result)
{
	socks->state = SOCKS_OVER;
	ret_result->reply = reply;
	return SOCKS_CLOSE;
}

/* The message is done with: its memory holds the answer. */
static enum socks_event refuse(struct socks *socks, enum socks_code code,
			       struct socks_result *ret_result)
{
	socks_format_reply(code, (char *)socks->message);
	return close_with(socks, (struct bytes){ (char *)socks->message, SOCKS_REPLY_LEN },
			  ret_result);
}

static enum socks_event on_greeting(struct socks *socks, struct socks_result *ret_result)
{
	const unsigned char *methods = socks->message + 2;

	if (!memchr(methods, NO_AUTH, socks->message[1]))
		return close_with(socks,
				  (struct bytes){ nothing_fits_reply, sizeof(nothing_fits_reply) },
				  ret_result);
	socks->state = SOCKS_REQUEST;
	socks->len = 0;
	ret_result->reply = (struct bytes){ no_auth_reply, sizeof(no_auth_reply) };
	return SOCKS_SEND;
}

/*
 * Names go where hosts are parsed: what could be more than a host there, a port or a user's name,
 * is none. Some clients send addresses as names; the usual form of IPv6 is an address.
 */
static bool read_name(struct bytes name, char *ret_host)
{
	static const char
		allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	struct in6_addr v6;

	memcpy(ret_host, name.data, name.len);
	ret_host[name.len] = '\0';
	if (name.len == 0 || strlen(ret_host) != name.len)
		return false;
	if (inet_pton(AF_INET6, ret_host, &v6) == 1)
		return inet_ntop(AF_INET6, &v6, ret_host, SOCKS_HOST_MAX + 1) != NULL;
	return strspn(ret_host, allowed) == name.len;
}

static bool read_host(const struct socks *socks, char *ret_host)
{
	const unsigned char *address = socks->message + ADDRESS_START;

	if (socks->message[3] == ADDRESS_NAME)
		return read_name((struct bytes){ (const char *)address + 1, address[0] }, ret_host);
	return inet_ntop(socks->message[3] == ADDRESS_V4 ? AF_INET : AF_INET6, address, ret_host,
			 SOCKS_HOST_MAX + 1) != NULL;
}

static enum socks_event on_request(struct socks *socks, struct socks_result *ret_result)
{
	const unsigned char *message = socks->message;

	if (message[2] != 0)
		return refuse(socks, SOCKS_FAILED, ret_result);
	if (message[1] != CONNECT)
		return refuse(socks, SOCKS_NO_SUCH_COMMAND, ret_result);
	if (socks->len == ADDRESS_START)
		return refuse(socks, SOCKS_NO_SUCH_ADDRESS_TYPE, ret_result);
	ret_result->port = (uint16_t)(message[socks->len - 2] << 8 | message[socks->len - 1]);
	if (ret_result->port == 0 || !read_host(socks, ret_result->host)) {
		ret_result->port = 0;
		ret_result->host[0] = '\0';
		return refuse(socks, SOCKS_FAILED, ret_result);
	}
	socks->state = SOCKS_OVER;
	return SOCKS_CONNECT;
}

enum socks_event socks_read(struct socks *socks, struct bytes *input,
			    struct socks_result *ret_result)
{
	assert(socks->state != SOCKS_OVER);
	ret_result->reply = (struct bytes){ NULL, 0 };
	ret_result->host[0] = '\0';
	ret_result->port = 0;
	if (!collect(socks, input))
		return SOCKS_NEEDS_MORE;
	if (socks->message[0] != VERSION)
		return close_with(socks, (struct bytes){ NULL, 0 }, ret_result);
	return socks->state == SOCKS_GREETING ? on_greeting(socks, ret_result)
					      : on_request(socks, ret_result);
}
