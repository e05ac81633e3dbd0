/* SPDX-License-Identifier: MIT */
/* A real redis-server for a test, on a unix socket in a directory of its own. */
#ifndef STORE_REDIS_SERVER_H
#define STORE_REDIS_SERVER_H

#include <stdint.h>
#include <sys/types.h>

struct redis_server {
	char dir[64], path[80], url[96];
	pid_t pid;     /* 0: not running */
	uint16_t port; /* on loopback as well, when it is not 0 */
};

/* Makes the directory, nothing else. */
void redis_server_init(struct redis_server *server);

/*
 * Runs it, with what was there before, and with further options up to a NULL; returns when it
 * answers. Writes down everything before it answers (appendonly).
 */
void redis_server_start(struct redis_server *server, const char *const *options);

/* By a signal; SIGKILL and SIGTERM also wait for its end. */
void redis_server_signal(struct redis_server *server, int signal);

/* A command of one's own, in words up to a NULL; the answer as a text, or an error's. */
void redis_server_ask(struct redis_server *server, const char *const *words, char *ret_text,
		      size_t size);
uint64_t redis_server_ask_number(struct redis_server *server, const char *const *words);

/* Ends it and removes the directory. */
void redis_server_fini(struct redis_server *server);

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

#endif
