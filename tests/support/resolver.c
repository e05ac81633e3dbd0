/* SPDX-License-Identifier: MIT */
/*
 * The gate's resolver as a program of its own, confined like the gate, for tests with real
 * clients: resolver PORT explain|deny [ALLOWED...]
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate/confine.h"
#include "gate/dns_server.h"

static bool is_allowed(void *owner, const char *name)
{
	for (char **allowed = owner; *allowed; allowed++)
		if (strcmp(*allowed, name) == 0)
			return true;
	return false;
}

static int open_socket(int family, int type, const char *port)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons((uint16_t)atoi(port)) };
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = v6.sin6_port };
	int fd = socket(family, type | SOCK_CLOEXEC, 0), one = 1;

	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(fd, family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6,
		 family == AF_INET ? sizeof(v4) : sizeof(v6)) < 0 ||
	    (type == SOCK_STREAM && listen(fd, 128) < 0)) {
		perror("resolver");
		exit(1);
	}
	return fd;
}

int main(int argc, char **argv)
{
	static const int families[] = { AF_INET, AF_INET6 };
	struct dns_policy policy = { .has_v6 = true, .is_allowed = is_allowed, .owner = argv + 3 };
	struct dns_server *server;
	struct loop loop;
	struct err err;

	if (argc < 3 || loop_init(&loop) < 0)
		return 2;
	policy.mode = strcmp(argv[2], "deny") == 0 ? DNS_DENY : DNS_EXPLAIN;
	server = dns_server_new(&loop, names_new(), &policy);
	for (size_t i = 0; i < ARRAY_LEN(families); i++)
		if (dns_server_add_udp(server, open_socket(families[i], SOCK_DGRAM, argv[1])) < 0 ||
		    dns_server_add_tcp(server, open_socket(families[i], SOCK_STREAM, argv[1])) < 0)
			return 1;
	if (write(STDOUT_FILENO, "ready\n", 6) != 6 || confine(&err) < 0)
		return 1;
	return loop_run(&loop) < 0;
}
