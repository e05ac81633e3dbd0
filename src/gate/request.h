/* SPDX-License-Identifier: MIT */
/*
 * What is to be done with a request, by its head and where its connection leads: it goes to the
 * keeper, is answered here, or asks for a connection to somewhere else. The gate decides nothing
 * about who may reach what; it refuses what is ambiguous.
 */
#ifndef GATE_REQUEST_H
#define GATE_REQUEST_H

#include "gate/call.h"
#include "gate/endpoint.h"
#include "tls/ws_key.h"

enum course_way {
	COURSE_CALL,   /* to the keeper */
	COURSE_ANSWER, /* by ourselves */
	COURSE_TARGET, /* CONNECT: the connection is one to `target` from here on */
};

struct course {
	enum course_way way;
	/* CALL */
	enum link_kind kind;
	bool is_tls;
	char host[AUTHORITY_TEXT_MAX]; /* empty: as the head has it, which means nothing */
	char accept[WS_ACCEPT_TEXT_LEN +
		    1]; /* what an upgrade is confirmed with, if there was a key */
	/* ANSWER */
	int status;
	const char *code, *message; /* NULL: it is well, /health says so */
	/* TARGET */
	struct authority target;
};

void request_judge(const struct endpoint *endpoint, const struct http_head *head,
		   struct course *ret_course);

/* What is wrong with a request that could not be read. */
void request_judge_fault(enum http_fault fault, struct course *ret_course);

/* Begins the call of a COURSE_CALL. */
void request_open(struct call *call, const struct http_head *head, const struct course *course);

/* The body of a COURSE_ANSWER; a refusal is told to the keeper, for the record. `head` may be
 * NULL. */
void request_answer(struct gate *gate, const struct endpoint *endpoint, const struct course *course,
		    const struct http_head *head, struct buf *body);

#endif
