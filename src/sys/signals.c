/* SPDX-License-Identifier: MIT */
/* Signals by descriptor. */
#include "sys/signals.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>

void signals_ignore_pipe(void)
{
	signal(SIGPIPE, SIG_IGN);
}

int signals_open(int *ret_fd, struct err *err)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return err_set(err, errno, "watch for signals");
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals_ignore_pipe();
	*ret_fd = fd;
	return 0;
}
