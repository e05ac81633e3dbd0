/* SPDX-License-Identifier: MIT */
/*
 * A name server that plays a script: each name has a row that says what it answers. It runs on
 * the loop of the test, over UDP on loopback; its TCP port accepts and closes.
 */
#ifndef TESTS_DNS_SERVER_H
#define TESTS_DNS_SERVER_H

#include "unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>

#include "event/loop.h"

enum {
	DNS_NXDOMAIN = 3,
	DNS_SERVFAIL = 2,
	DNS_REFUSED = 5,
	DNS_DROP = 100,    /* no answer at all */
	DNS_GARBAGE = 101, /* bytes that are no answer */
	DNS_CUT = 102,     /* "ask again by TCP" */
	DNS_TYPE_A = 1,
	DNS_TYPE_AAAA = 28,
};

struct dns_row {
	const char *name;
	const char *v6, *v4;   /* an address each, or NULL: there is none */
	int v6_code, v4_code;  /* instead */
	unsigned int v4_count; /* consecutive addresses; 0 is 1 */
	unsigned int ttl;
};

struct dns_server {
	struct loop_source udp, tcp;
	const struct dns_row *rows;
	char address[32];
	int v6_asked, v4_asked, tcp_asked;
};

static inline size_t dns_read_name(const unsigned char *query, size_t len, char *ret_name)
{
	size_t at = 12, out = 0;

	while (at < len && query[at] != 0) {
		size_t label = query[at++];

		assert_true(at + label < len && out + label + 1 < 256);
		memcpy(ret_name + out, query + at, label);
		out += label;
		ret_name[out++] = '.';
		at += label;
	}
	ret_name[out ? out - 1 : 0] = '\0';
	return at + 1;
}

static inline size_t dns_add(unsigned char *reply, size_t at, uint16_t type, const void *bytes,
			     uint16_t size, uint32_t ttl)
{
	const unsigned char head[] = { 0xc0, 12, 0, (unsigned char)type, 0, 1 };

	memcpy(reply + at, head, sizeof(head));
	at += sizeof(head);
	ttl = htonl(ttl);
	memcpy(reply + at, &ttl, 4);
	reply[at + 4] = 0;
	reply[at + 5] = (unsigned char)size;
	memcpy(reply + at + 6, bytes, size);
	return at + 6 + size;
}

/* Writes the answer over the query, which has `len` bytes with its question. */
static inline size_t dns_answer(const struct dns_row *row, uint16_t type, unsigned char *reply,
				size_t len)
{
	bool is_v6 = type == DNS_TYPE_AAAA;
	const char *address = !row ? NULL : is_v6 ? row->v6 : row->v4;
	int code = !row ? DNS_NXDOMAIN : is_v6 ? row->v6_code : row->v4_code;
	unsigned int count = address ? 1 : 0;
	unsigned char bytes[16];

	if (address && !is_v6 && row->v4_count)
		count = row->v4_count;
	reply[2] = 0x81 | (code == DNS_CUT ? 2 : 0);
	reply[3] = (unsigned char)(0x80 | (code < 16 ? code : 0));
	memset(reply + 6, 0, 6);
	if (code)
		return code == DNS_GARBAGE ? 7 : len;
	reply[7] = (unsigned char)count;
	if (count > 0)
		assert_int_equal(inet_pton(is_v6 ? AF_INET6 : AF_INET, address, bytes), 1);
	for (unsigned int i = 0; i < count; i++) {
		len = dns_add(reply, len, type, bytes, is_v6 ? 16 : 4, row->ttl);
		bytes[3]++;
	}
	return len;
}

static inline void dns_on_udp(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct dns_server *server = OWNER_OF(source, struct dns_server, udp);
	const struct dns_row *row = server->rows;
	struct sockaddr_in from;
	socklen_t from_len = sizeof(from);
	unsigned char packet[1024];
	char name[256];
	ssize_t n = recvfrom(source->fd, packet, 512, 0, (struct sockaddr *)&from, &from_len);
	size_t at;
	uint16_t type;

	(void)ready;
	(void)now_ms;
	assert_true(n > 12);
	at = dns_read_name(packet, (size_t)n, name);
	type = (uint16_t)(packet[at] << 8 | packet[at + 1]);
	*(type == DNS_TYPE_AAAA ? &server->v6_asked : &server->v4_asked) += 1;
	while (row->name && strcasecmp(row->name, name) != 0)
		row++;
	if (!row->name)
		row = NULL;
	if (row && (type == DNS_TYPE_AAAA ? row->v6_code : row->v4_code) == DNS_DROP)
		return;
	at = dns_answer(row, type, packet, at + 4);
	assert_int_equal(sendto(source->fd, packet, at, 0, (struct sockaddr *)&from, from_len), at);
}

static inline void dns_on_tcp(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct dns_server *server = OWNER_OF(source, struct dns_server, tcp);
	int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC);
	struct linger at_once = { .l_onoff = 1 };

	(void)ready;
	(void)now_ms;
	server->tcp_asked++;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close_fd(&fd);
}

/* Both on one port; false if the one that was free for TCP is not for UDP. */
static inline bool dns_bind(int *ret_udp, int *ret_tcp, struct sockaddr_in *ret_address)
{
	socklen_t len = sizeof(*ret_address);

	*ret_address = (struct sockaddr_in){ .sin_family = AF_INET,
					     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	*ret_udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	*ret_tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(*ret_tcp, (struct sockaddr *)ret_address, len) == 0 &&
	    getsockname(*ret_tcp, (struct sockaddr *)ret_address, &len) == 0 &&
	    bind(*ret_udp, (struct sockaddr *)ret_address, len) == 0)
		return true;
	close_fd(ret_udp);
	close_fd(ret_tcp);
	return false;
}

static inline void dns_server_open(struct dns_server *server, struct loop *loop,
				   const struct dns_row *rows)
{
	struct sockaddr_in address;
	int udp, tcp, tries = 20;

	*server = (struct dns_server){ .udp.on_ready = dns_on_udp,
				       .tcp.on_ready = dns_on_tcp,
				       .rows = rows };
	while (!dns_bind(&udp, &tcp, &address))
		assert_true(tries-- > 0);
	assert_int_equal(listen(tcp, 5), 0);
	snprintf(server->address, sizeof(server->address), "127.0.0.1:%u", ntohs(address.sin_port));
	assert_int_equal(loop_add(loop, &server->udp, udp, LOOP_READ), 0);
	assert_int_equal(loop_add(loop, &server->tcp, tcp, LOOP_READ), 0);
}

static inline void dns_server_close(struct dns_server *server, struct loop *loop)
{
	int udp = server->udp.fd, tcp = server->tcp.fd;

	loop_remove(loop, &server->udp);
	loop_remove(loop, &server->tcp);
	close_fd(&udp);
	close_fd(&tcp);
}

#endif
