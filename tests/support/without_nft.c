/* SPDX-License-Identifier: MIT */
/*
 * without_nft COMMAND [ARG]...
 *
 * Runs a command on a kernel that seems to have been built without netfilter: there is no such
 * netlink family. Everything below it, too.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define SKIP_UNLESS(value, count)                                                                  \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (unsigned char)(count))

int main(int argc, char **argv)
{
	struct sock_filter filter[] = {
		LOAD(nr),
		SKIP_UNLESS(SYS_socket, 5),
		LOAD(args[0]),
		SKIP_UNLESS(AF_NETLINK, 3),
		LOAD(args[2]),
		SKIP_UNLESS(NETLINK_NETFILTER, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPROTONOSUPPORT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0) {
		perror("without_nft");
		return 125;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 125;
}
