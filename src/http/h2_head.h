/* SPDX-License-Identifier: MIT */
/* Heads of HTTP/2 messages: from nghttp2's fields, and to them. Part of h2.c. */
#ifndef HTTP_H2_HEAD_H
#define HTTP_H2_HEAD_H

#include <nghttp2/nghttp2.h>

#include "base/buf.h"
#include "http/h2.h"

#define H2_PSEUDO_MAX 6

/*
 * A head that comes in, field by field. It is there only while one does: a connection has at
 * most one, because nothing may stand between the frames of a head (RFC 9113 4.3).
 */
struct h2_block {
	struct http_head head;
	enum http_fault fault;  /* the first one */
	size_t size;            /* of names and values, as if each were a line */
	size_t count;           /* of fields, with those that were left out */
	struct bytes authority; /* the pseudo field */
	struct bytes status;
	struct buf cookie; /* when it came in pieces */
	size_t held_count;
	nghttp2_rcbuf *held[2 * HTTP_FIELDS_MAX + H2_PSEUDO_MAX]; /* what the views point into */
};

struct h2_block *h2_block_new(void);
void h2_block_free(struct h2_block *block);

/* False when no peer would go on for so long. */
bool h2_block_add(struct h2_block *block, nghttp2_rcbuf *name, nghttp2_rcbuf *value) must_check;

/* The same for a field that has bytes which no field may have: the head is not passed on. */
bool h2_block_refuse(struct h2_block *block, nghttp2_rcbuf *name, nghttp2_rcbuf *value) must_check;

/* All fields are there: what they amount to, in block->head. */
enum http_fault h2_block_read_request(struct h2_block *block, bool is_end) must_check;
enum http_fault h2_block_read_reply(struct h2_block *block, bool is_end) must_check;
enum http_fault h2_block_read_trailer(struct h2_block *block) must_check;

/* A head that goes out; its views are those of the message. */
struct h2_nvs {
	size_t count;
	size_t size;
	char status[4];
	char length[24];
	nghttp2_nv nvs[HTTP_FIELDS_MAX + H2_PSEUDO_MAX + 1];
};

/* 0, or -EMSGSIZE when it is larger than the limits. */
int h2_format_request(const struct h2_message *message, struct h2_nvs *ret_nvs) must_check;
int h2_format_reply(const struct h2_message *message, struct h2_nvs *ret_nvs) must_check;
int h2_format_trailer(const struct http_field *fields, size_t count,
		      struct h2_nvs *ret_nvs) must_check;

#endif
