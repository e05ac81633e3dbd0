/* SPDX-License-Identifier: MIT */
/* Terminals: a new one for the agent, raw mode for the caller's. */
#ifndef SYS_PTY_H
#define SYS_PTY_H

#include <stdbool.h>
#include <termios.h>

#include "base/attr.h"

/* Opens a new terminal on the devpts at `ptmx`; returns the master. */
int pty_open_master(const char *ptmx) must_check;

/* Opens the other end of a master. It does not become the controlling terminal. */
int pty_open_slave(int master_fd) must_check;

/* Makes `slave_fd` the controlling terminal of a new session. */
int pty_become_controlling(int slave_fd) must_check;

/* Copies the window size from one terminal to another. */
void pty_copy_size(int from_fd, int to_fd);

/* Switches a terminal to raw mode; *ret_saved restores it. */
int pty_set_raw(int fd, struct termios *ret_saved) must_check;
void pty_restore(int fd, const struct termios *saved);

#endif
