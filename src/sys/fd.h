/* SPDX-License-Identifier: MIT */
/* Descriptors: whole writes, whole small files, none left open by accident. */
#ifndef SYS_FD_H
#define SYS_FD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"

/* Writes everything, through EINTR and short writes; 0 or -errno. */
int fd_write_all(int fd, const char *bytes, size_t len) must_check;

/* Opens, writes once, closes: how kernel interface files want it. 0 or -errno. */
int fd_write_file(int dir_fd, const char *path, const char *text) must_check;

/*
 * Reads a small file whole into `text` and terminates it. Returns its length, or
 * -errno; a file that does not fit is -EFBIG.
 */
ssize_t fd_read_file(int dir_fd, const char *path, char *text, size_t size) must_check;

/* Whether the other end of a connection sees its end, also by our own end, as an error. */
void fd_set_abrupt(int fd, bool is_abrupt);

/* Closes every descriptor from `from` up at the next exec. */
int fd_cloexec_from(unsigned int from) must_check;

/* Makes sure 0, 1 and 2 are taken; one that was closed cannot be read or written. */
int fd_fill_std(void) must_check;

#endif
