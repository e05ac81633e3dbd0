/* SPDX-License-Identifier: MIT */
/* What a keeper tells the process that started it: packets, a letter and a text each. */
#ifndef SYS_STATUS_H
#define SYS_STATUS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/bytes.h"

#define STATUS_TEXT_MAX ((size_t)256 * 1024)

enum status_type {
	STATUS_GO = 'G',      /* to the keeper, after its words: what they say is in order */
	STATUS_WORDS = 'W',   /* options from a file: texts, each with its NUL */
	STATUS_LINK = 'k',    /* of a shared keeper: the gate's end of a link comes along */
	STATUS_READY = '+',   /* everything is open: the agent may start */
	STATUS_FAILED = '!',  /* what went wrong */
	STATUS_REFUSED = '-', /* a host that was refused, as an option names it */
	STATUS_LEARNED = '~', /* how many rules the draft has */
	STATUS_SUMMARY = '=', /* requests allowed, refused, and where the log is */
	STATUS_RUN = 'r',     /* a run, as NAME=VALUE words; what was asked of a shared keeper */
	STATUS_DONE = '.',    /* ... and there is no more */
};

int status_send(int fd, enum status_type type, const char *text) must_check;
int status_send_bytes(int fd, enum status_type type, struct bytes text) must_check;
int status_send_words(int fd, const char *const *words, size_t count) must_check;

/*
 * Waits for the next packet, for at most `wait_ms` (-1: for ever). Its text and a NUL are put
 * into `ret_text`, of STATUS_TEXT_MAX + 1 bytes. Returns its type, 0 when there will be no
 * more, or -errno; *ret_len may be NULL.
 */
int status_receive(int fd, int wait_ms, char *ret_text, size_t *ret_len) must_check;

/* The same; *ret_fd is what came along, close-on-exec and the caller's, or -1. */
int status_receive_passed(int fd, int wait_ms, char *ret_text, size_t *ret_len,
			  int *ret_fd) must_check;

#endif
