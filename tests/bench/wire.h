/* SPDX-License-Identifier: MIT */
/* The connections of both ends of a benchmark, with TLS or without. */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#define WIRE_NAME_MAX 255

struct wire {
	int fd;
	SSL *ssl; /* or NULL */
};

/* Where to connect to. */
struct wire_target {
	struct sockaddr_storage address;
	socklen_t address_len;
	bool is_tls;
	char name[WIRE_NAME_MAX + 1]; /* whom TLS asks for, and Host */
};

/*
 * tcp:ADDRESS:PORT, unix:PATH or tls:HOST:PORT[/NAME]: TLS with NAME, or else with HOST. `label`,
 * if it is not empty, is put in front of NAME, or else of HOST. Ends the program on what it
 * cannot find.
 */
void wire_find(const char *text, const char *label, struct wire_target *ret_target);

/*
 * Connects, and shakes hands; blocking. With a session, that one is taken up again. 0, or -1 with
 * errno. The other side is ours or a proxy under test: its certificate is not looked at.
 */
int wire_open(struct wire *wire, const struct wire_target *target, SSL_SESSION *session);

/* Waits for a ticket, and gives it away; NULL when none comes. */
SSL_SESSION *wire_take_session(struct wire *wire);

/* From now on connections that are accepted have TLS, with this certificate. */
void wire_serve_tls(const char *certificate, const char *key);

/* An accepted socket. */
void wire_accept(struct wire *wire, int fd);

void wire_close(struct wire *wire);

/* As send and recv, EAGAIN included; an end without close_notify is one like any other. */
ssize_t wire_send(struct wire *wire, const char *data, size_t len);
ssize_t wire_recv(struct wire *wire, char *data, size_t size);

/* Whether there is more to read of which epoll knows nothing. */
bool wire_has_more(const struct wire *wire);

/* Sends everything, and waits for room where it must: only for what is small. 0 or -errno. */
int wire_send_whole(struct wire *wire, const char *data, size_t len);

#endif
