/* SPDX-License-Identifier: MIT */
/* Starting, stopping and asking a redis-server. */
#include "store/redis_server.h"

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPTIONS_MAX 48
#define WORDS_MAX   32
#define PATIENCE    1000 /* times 10 ms */

void redis_server_init(struct redis_server *server)
{
	*server = (struct redis_server){ 0 };
	snprintf(server->dir, sizeof(server->dir), "/tmp/warder-redis-XXXXXX");
	assert_non_null(mkdtemp(server->dir));
	snprintf(server->path, sizeof(server->path), "%s/socket", server->dir);
	snprintf(server->url, sizeof(server->url), "unix://%s", server->path);
}

static void become_server(const struct redis_server *server, const char *const *options)
{
	char port[8];
	const char *words[OPTIONS_MAX] = {
		"redis-server",
		"--port",
		port,
		"--bind",
		"127.0.0.1",
		"--unixsocket",
		server->path,
		"--dir",
		server->dir,
		"--logfile",
		"log",
		"--daemonize",
		"no",
		"--save",
		"",
		"--appendonly",
		"yes",
		"--appendfsync",
		"always", /* what was answered was written */
		"--enable-debug-command",
		"local",
		"--enable-protected-configs",
		"local",
	};
	size_t count = 0;

	while (words[count])
		count++;
	snprintf(port, sizeof(port), "%u", server->port);
	while (options && *options)
		words[count++] = *options++;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execvp(words[0], (char *const *)words);
	_exit(127);
}

static redisContext *dial(const struct redis_server *server)
{
	redisContext *context = redisConnectUnix(server->path);

	if (context && context->err) {
		redisFree(context);
		return NULL;
	}
	return context;
}

/* What is still loading answers with an error, which is an answer. */
void redis_server_start(struct redis_server *server, const char *const *options)
{
	redisContext *context = NULL;

	assert_int_equal(server->pid, 0);
	unlink(server->path);
	server->pid = fork();
	assert_true(server->pid >= 0);
	if (server->pid == 0)
		become_server(server, options);
	for (int i = 0; i < PATIENCE && !context; i++) {
		context = dial(server);
		if (!context) {
			assert_int_equal(waitpid(server->pid, NULL, WNOHANG), 0);
			usleep(10000);
		}
	}
	assert_non_null(context);
	redisFree(context);
}

void redis_server_signal(struct redis_server *server, int signal)
{
	assert_true(server->pid > 0);
	assert_int_equal(kill(server->pid, signal), 0);
	if (signal != SIGKILL && signal != SIGTERM)
		return;
	kill(server->pid, SIGCONT);
	assert_int_equal(waitpid(server->pid, NULL, 0), server->pid);
	server->pid = 0;
}

static redisReply *ask(struct redis_server *server, const char *const *words)
{
	redisContext *context = dial(server);
	const char *list[WORDS_MAX];
	redisReply *reply;
	int count = 0;

	assert_non_null(context);
	while (words[count]) {
		assert_true(count < WORDS_MAX);
		list[count] = words[count];
		count++;
	}
	reply = redisCommandArgv(context, count, list, NULL);
	redisFree(context);
	return reply;
}

void redis_server_ask(struct redis_server *server, const char *const *words, char *ret_text,
		      size_t size)
{
	redisReply *reply = ask(server, words);

	ret_text[0] = '\0';
	if (reply && reply->str)
		snprintf(ret_text, size, "%s", reply->str);
	if (reply)
		freeReplyObject(reply);
}

uint64_t redis_server_ask_number(struct redis_server *server, const char *const *words)
{
	redisReply *reply = ask(server, words);
	uint64_t number;

	assert_non_null(reply);
	assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
	number = (uint64_t)reply->integer;
	freeReplyObject(reply);
	return number;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
	(void)info;
	(void)kind;
	(void)where;
	return remove(path);
}

void redis_server_fini(struct redis_server *server)
{
	if (server->pid)
		redis_server_signal(server, SIGKILL);
	nftw(server->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
