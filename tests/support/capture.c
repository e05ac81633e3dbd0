/* SPDX-License-Identifier: MIT */
/*
 * capture [-t] [-w MS] [-n [-p PORT]...] COMMAND [ARG]...
 *
 * Runs a command in a network namespace whose traffic is captured, and plays the gate from
 * outside: every TCP connection is told where it was going, "tcp ADDRESS PORT" from the listener
 * for connections and "dns ADDRESS PORT" from the one for DNS; a datagram to port 53 comes back
 * with "udp " in front. With -n there is no nftables: listeners on the given ports and UDP 53.
 * -w waits that long before it answers a connection.
 * -t prints how long the set-up took, in microseconds. The status is the command's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "net/origdst.h"
#include "sys/netns.h"
#include "sys/nft.h"
#include "sys/pass.h"
#include "sys/pidfd.h"
#include "sys/route.h"
#include "sys/userns.h"

#define PORT_TCP    61001
#define PORT_DNS    61053
#define PORTS_MAX   4
#define SOCKETS_MAX (2 * (PORTS_MAX + 2))

static struct {
	bool is_plain, is_timed;
	unsigned int wait_ms;
	uint16_t ports[PORTS_MAX];
	size_t port_count;
} options;

/* A socket of the namespace, by what the child said it is: 't'cp, 'd'ns or 'u'dp. */
struct gate_socket {
	char kind;
	int fd;
};

static void die(const char *what, int r)
{
	fprintf(stderr, "capture: %s: %s\n", what, strerror(-r));
	exit(125);
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void hand_over(int gate_fd, char kind, int fd)
{
	int r = fd;

	if (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL)
		return;
	if (fd >= 0)
		r = pass_send(gate_fd, &kind, 1, fd);
	if (r < 0)
		die("open a socket", r);
	close(fd);
}

static void open_sockets(int gate_fd, int family)
{
	if (!options.is_plain) {
		hand_over(gate_fd, 't', netns_listen(family, PORT_TCP));
		hand_over(gate_fd, 'd', netns_listen(family, PORT_DNS));
		hand_over(gate_fd, 'u', netns_bind_udp(family, PORT_DNS));
		return;
	}
	for (size_t i = 0; i < options.port_count; i++)
		hand_over(gate_fd, 'p', netns_listen_port(family, options.ports[i]));
	hand_over(gate_fd, 'u', netns_bind_udp_port(family, 53));
}

/* Root in the new user namespace, whoever that is outside. */
static void enter(const struct userns_map *map)
{
	int r = userns_write_map(0, map, 1);

	if (r == 0)
		r = netns_loopback_up();
	if (r < 0)
		die("set up the namespaces", r);
}

static void set_up(void)
{
	const struct nft_ports ports = { .tcp = PORT_TCP, .dns = PORT_DNS };
	uint64_t before = now_us(), between;
	bool has_v6;
	int r = route_all_local(&has_v6);

	if (r < 0)
		die("add routes", r);
	between = now_us();
	r = options.is_plain ? 0 : nft_redirect(&ports);
	if (r < 0)
		die("load rules", r);
	if (options.is_timed)
		printf("%u %u\n", (unsigned int)(between - before),
		       (unsigned int)(now_us() - between));
	fflush(stdout);
}

static void run_child(const struct userns_map *map, int gate_fd, char **argv)
{
	char go;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	enter(map);
	set_up();
	open_sockets(gate_fd, AF_INET);
	open_sockets(gate_fd, AF_INET6);
	if (pass_send(gate_fd, "x", 1, -1) < 0 || read(gate_fd, &go, 1) != 1)
		die("wait for the gate", -EPIPE);
	execvp(argv[0], argv);
	die(argv[0], -errno);
}

static void answer_connection(const struct gate_socket *from)
{
	_cleanup_close_ int fd = accept4(from->fd, NULL, NULL, SOCK_CLOEXEC);
	struct sockaddr_storage address = { 0 };
	socklen_t len = sizeof(address);
	char host[INET6_ADDRSTRLEN] = "?", text[128];
	uint16_t port = 0;
	int r;

	if (fd < 0)
		return;
	usleep(options.wait_ms * 1000);
	r = from->kind == 'p' ? getsockname(fd, (struct sockaddr *)&address, &len)
			      : origdst_get(fd, &address);
	if (address.ss_family == AF_INET) {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address;

		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
		port = ntohs(v4->sin_port);
	} else if (address.ss_family == AF_INET6) {
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address;

		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
		port = ntohs(v6->sin6_port);
	}
	snprintf(text, sizeof(text), "%s %s %d\n", from->kind == 'd' ? "dns" : "tcp",
		 r < 0 ? strerror(-r) : host, port);
	if (write(fd, text, strlen(text)) < 0)
		perror("capture: write");
}

/* Sends what came with a packet's address back with the reply. */
static void keep_source(struct msghdr *message)
{
	struct cmsghdr *head = CMSG_FIRSTHDR(message);

	if (!head)
		return;
	if (head->cmsg_level == IPPROTO_IP) {
		struct in_pktinfo *info = (struct in_pktinfo *)(void *)CMSG_DATA(head);

		info->ipi_ifindex = 0;
	} else {
		struct in6_pktinfo *info = (struct in6_pktinfo *)(void *)CMSG_DATA(head);

		info->ipi6_ifindex = 0;
	}
}

static void answer_datagram(int fd)
{
	char data[1024] = "udp ";
	_Alignas(struct cmsghdr) char control[256];
	struct sockaddr_storage sender;
	struct iovec part = { data + 4, sizeof(data) - 4 };
	struct msghdr message = { .msg_name = &sender,
				  .msg_namelen = sizeof(sender),
				  .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(fd, &message, 0);

	if (n < 0)
		return;
	keep_source(&message);
	part = (struct iovec){ data, (size_t)n + 4 };
	if (sendmsg(fd, &message, 0) < 0)
		perror("capture: sendmsg");
}

static size_t receive_sockets(int child_fd, struct gate_socket *ret_sockets)
{
	size_t count = 0;

	for (;;) {
		struct gate_socket got;

		if (pass_receive(child_fd, &got.kind, 1, &got.fd) != 1)
			exit(125); /* the child said why */
		if (got.kind == 'x')
			return count;
		if (count == SOCKETS_MAX)
			die("count sockets", -E2BIG);
		ret_sockets[count++] = got;
	}
}

static void serve(struct gate_socket *sockets, size_t count, int pid_fd)
{
	struct pollfd polled[SOCKETS_MAX + 1];

	for (size_t i = 0; i < count; i++)
		polled[i] = (struct pollfd){ .fd = sockets[i].fd, .events = POLLIN };
	polled[count] = (struct pollfd){ .fd = pid_fd, .events = POLLIN };
	while (poll(polled, count + 1, -1) > 0 && !polled[count].revents)
		for (size_t i = 0; i < count; i++) {
			if (!polled[i].revents)
				continue;
			if (sockets[i].kind == 'u')
				answer_datagram(sockets[i].fd);
			else
				answer_connection(&sockets[i]);
		}
}

static void read_options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "+np:tw:")) != -1)
		switch (option) {
		case 'n':
			options.is_plain = true;
			break;
		case 't':
			options.is_timed = true;
			break;
		case 'w':
			options.wait_ms = (unsigned int)strtoul(optarg, NULL, 10);
			break;
		case 'p':
			if (options.port_count < PORTS_MAX)
				options.ports[options.port_count++] = (uint16_t)strtoul(optarg,
											NULL, 10);
			break;
		default:
			exit(125);
		}
	if (optind == argc)
		exit(125);
}

int main(int argc, char **argv)
{
	const struct userns_map map = { .outside_uid = geteuid(), .outside_gid = getegid() };
	struct gate_socket sockets[SOCKETS_MAX];
	int pair[2], pid_fd, status;
	size_t count;
	pid_t pid;

	read_options(argc, argv);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		die("socketpair", -errno);
	pid = pidfd_clone(CLONE_NEWUSER | CLONE_NEWNET, -1, &pid_fd);
	if (pid < 0)
		die("clone", pid);
	if (pid == 0) {
		close(pair[0]);
		run_child(&map, pair[1], argv + optind);
	}
	close(pair[1]);
	count = receive_sockets(pair[0], sockets);
	if (write(pair[0], "g", 1) != 1)
		die("let it go", -errno);
	serve(sockets, count, pid_fd);
	status = pidfd_reap(pid_fd);
	return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 125;
}
