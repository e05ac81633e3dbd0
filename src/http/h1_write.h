/* SPDX-License-Identifier: MIT */
/* Writes HTTP/1.1 messages anew from their parsed form; no framing is ever copied. */
#ifndef HTTP_H1_WRITE_H
#define HTTP_H1_WRITE_H

#include "base/buf.h"
#include "http/head.h"

/* Room for the line before a chunk, and for what follows the last one. */
#define H1_CHUNK_HEAD_MAX ((size_t)20)
#define H1_CHUNK_END      "\r\n"
#define H1_LAST_CHUNK     "0\r\n\r\n"

void h1_write_request_line(struct buf *out, struct bytes method, struct bytes target);
void h1_write_status_line(struct buf *out, int status, struct bytes reason);
/* What such a status is usually called; or nothing. */
struct bytes h1_reason(int status);

void h1_write_field(struct buf *out, struct bytes name, struct bytes value);

/* The field that frames the body, and the empty line after the head. */
void h1_write_framing(struct buf *out, enum http_framing framing, uint64_t length);

/* The size line of a chunk into `text`, of H1_CHUNK_HEAD_MAX bytes; returns its length. */
size_t h1_format_chunk_head(char *text, uint64_t size);

#endif
