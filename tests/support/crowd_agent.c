/* SPDX-License-Identifier: MIT */
/*
 * One agent of a crowd: `crowd_agent NUMBER`, in a sandbox, so small that a thousand of them fit on
 * a machine.
 *
 * Each line on its standard input is how many requests to make, on one connection to the gate. A
 * request claims to be somebody else's, in every place where a client can, and is marked by
 * NUMBER.TURN; the origin sends back the mark and whose request it took it for, which must be this
 * run's. What became of each line goes to the standard output as one line of its own:
 * "NUMBER WORD RUN-ID", where the word is "ready" at first, then "done" or what is wrong.
 */
#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT 8080

static char reply[8192];

static void say(const char *number, const char *word)
{
	char line[256];
	int len = snprintf(line, sizeof(line), "%s %s %s\n", number, word, getenv("RUN_ID"));

	if (write(STDOUT_FILENO, line, (size_t)len) != len)
		exit(1);
}

static int open_connection(void)
{
	struct sockaddr_in gate = { .sin_family = AF_INET,
				    .sin_port = htons(PORT),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&gate, sizeof(gate)) < 0)
		err(1, "connect to the gate");
	return fd;
}

static bool send_request(int fd, const char *mark)
{
	char body[256], request[1024];
	int len = snprintf(
		body, sizeof(body),
		"{\"model\":\"%s\",\"user\":\"somebody\",\"metadata\":{\"user_id\":\"x\"}}", mark);

	len = snprintf(request, sizeof(request),
		       "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost:8080\r\n"
		       "Content-Type: application/json\r\nAuthorization: Bearer mine\r\n"
		       "x-litellm-end-user-id: somebody/0\r\n"
		       "x-litellm-spend-logs-metadata: {\"runId\":\"somebody\"}\r\n"
		       "x-run-id: somebody\r\nContent-Length: %d\r\n\r\n%s",
		       len, body);
	return send(fd, request, (size_t)len, MSG_NOSIGNAL) == len;
}

/* The reply's body, which ends with its only line feed; NULL: the connection has ended. */
static const char *read_reply(int fd)
{
	size_t len = 0;
	char *body;

	while (len < sizeof(reply) - 1) {
		ssize_t n = recv(fd, reply + len, sizeof(reply) - 1 - len, 0);

		if (n <= 0)
			return NULL;
		len += (size_t)n;
		reply[len] = '\0';
		body = strstr(reply, "\r\n\r\n");
		if (body && (reply[len - 1] == '\n' && body + 4 < reply + len))
			return body + 4;
		if (body && strncmp(reply, "HTTP/1.1 200 ", 13) != 0)
			return reply; /* a refusal has no such end */
	}
	return NULL;
}

static const char *ask(int fd, const char *mark)
{
	char expected[512];
	const char *body;

	if (!send_request(fd, mark))
		return "unsent";
	body = read_reply(fd);
	if (!body)
		return "cut";
	snprintf(expected, sizeof(expected), "{\"mark\":\"%s\",\"user\":\"%s/0\"}\n", mark,
		 getenv("RUN_ID"));
	if (strcmp(body, expected) == 0)
		return NULL;
	warnx("expected %s, had %s", expected, body);
	return strncmp(body, "HTTP/", 5) == 0 ? "refused" : "mixed";
}

int main(int argc, char **argv)
{
	int fd = open_connection(), turn = 0;
	char line[32], mark[64];

	if (argc != 2)
		errx(2, "usage: crowd_agent NUMBER");
	say(argv[1], "ready");
	while (fgets(line, sizeof(line), stdin)) {
		const char *fault = NULL;

		for (int left = atoi(line); left > 0 && !fault; left--) {
			snprintf(mark, sizeof(mark), "%s.%d", argv[1], turn++);
			fault = ask(fd, mark);
		}
		say(argv[1], fault ? fault : "done");
	}
	return 0;
}
