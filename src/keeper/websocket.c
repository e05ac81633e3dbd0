/* SPDX-License-Identifier: MIT */
/* Messages of WebSocket on their way through. The frames of either side may be anybody's. */
#include "keeper/websocket.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/die.h"

#define GATHERED_MAX (1 << 20) /* a piece, and what was held back of those before it */

struct websocket *websocket_new(const struct substitute_set *substitutes, uint64_t bound,
				const struct scrub_set *scrubs)
{
	struct websocket *websocket = calloc(1, sizeof(*websocket));

	if (!websocket)
		die_no_memory();
	ws_reader_init(&websocket->from_agent, true);
	ws_reader_init(&websocket->from_origin, false);
	websocket->substitutes = substitutes;
	websocket->bound = bound;
	websocket->scrubs = scrubs;
	buf_init(&websocket->gathered, GATHERED_MAX);
	ws_key_make(websocket->key);
	return websocket;
}

void websocket_free(struct websocket *websocket)
{
	if (!websocket)
		return;
	scrub_fini(&websocket->scrub);
	buf_fini(&websocket->gathered);
	free(websocket);
}

bool websocket_is_accepted(const struct websocket *websocket, struct bytes accept)
{
	char wanted[WS_ACCEPT_TEXT_LEN + 1];

	ws_key_accept(bytes_of(websocket->key), wanted);
	return bytes_equal(accept, bytes_of(wanted));
}

static void gather(void *owner, struct bytes data)
{
	buf_add(owner, data.data, data.len);
}

/* What was gathered, and nothing of it is left: there may be a secret in it. */
static struct bytes gathered(struct websocket *websocket)
{
	return (struct bytes){ websocket->gathered.data, websocket->gathered.len };
}

static void forget_gathered(struct websocket *websocket)
{
	if (websocket->gathered.data)
		explicit_bzero(websocket->gathered.data, websocket->gathered.len);
	buf_fini(&websocket->gathered);
}

/* ---- from the agent ---- */

/* RFC 6455 5.3: nobody could have guessed it. */
static void make_key(unsigned char key[WS_KEY_LEN])
{
	if (getrandom(key, WS_KEY_LEN, 0) != WS_KEY_LEN)
		abort(); /* so few bytes are always there */
}

/* Text that looks like JSON is taken for it: a secret must stay within its quotes there. */
static enum syntax syntax_of(struct bytes text)
{
	while (text.len > 0 && (text.data[0] == ' ' || text.data[0] == '\n' ||
				text.data[0] == '\r' || text.data[0] == '\t'))
		bytes_take(&text, 1);
	return text.len > 0 && strchr("{[\"", text.data[0]) ? SYNTAX_JSON : SYNTAX_RAW;
}

/* Only text may have secrets in it; elsewhere a placeholder is found, and refused. */
static void begin_text(struct websocket *websocket, enum ws_opcode opcode, struct bytes data)
{
	substitute_init(&websocket->substitute, websocket->substitutes,
			opcode == WS_TEXT ? websocket->bound : 0, KEEPER_WEBSOCKET,
			syntax_of(data));
	websocket->has_syntax = true;
}

static int write_to_origin(struct websocket *websocket, const struct ws_result *result,
			   struct buf *out)
{
	struct substitute *substitute = &websocket->substitute;
	unsigned char key[WS_KEY_LEN];
	int r;

	if (!websocket->has_syntax)
		begin_text(websocket, result->opcode, result->data);
	if (result->data.len > 0)
		substitute_push(substitute, result->data, gather, &websocket->gathered);
	if (result->is_end) {
		substitute_finish(substitute, gather, &websocket->gathered);
		websocket->has_syntax = false;
	}
	if (substitute->found.refused)
		return -EPERM;
	make_key(key);
	r = ws_write_piece(&websocket->to_origin, out, result->opcode, result->is_end, key,
			   gathered(websocket));
	forget_gathered(websocket);
	return r;
}

/* No secret goes into a frame that the host's library answers by itself. */
static int pass_control(struct websocket *websocket, const struct ws_result *result,
			struct buf *out)
{
	struct substitute substitute;
	unsigned char key[WS_KEY_LEN];
	int r;

	substitute_init(&substitute, websocket->substitutes, 0, KEEPER_WEBSOCKET, SYNTAX_RAW);
	substitute_push(&substitute, result->data, gather, &websocket->gathered);
	substitute_finish(&substitute, gather, &websocket->gathered);
	if (substitute.found.refused)
		return -EPERM;
	make_key(key);
	r = ws_write_frame(out, result->opcode, true, key, gathered(websocket));
	forget_gathered(websocket);
	return r;
}

/* ---- from the host ---- */

static int write_to_agent(struct websocket *websocket, const struct ws_result *result,
			  struct buf *out)
{
	int r;

	if (result->data.len > 0)
		scrub_push(&websocket->scrub, websocket->scrubs, result->data, gather,
			   &websocket->gathered);
	if (result->is_end)
		scrub_finish(&websocket->scrub, websocket->scrubs, gather, &websocket->gathered);
	r = ws_write_piece(&websocket->to_agent, out, result->opcode, result->is_end, NULL,
			   gathered(websocket));
	forget_gathered(websocket);
	return r;
}

static int pass_control_back(struct websocket *websocket, const struct ws_result *result,
			     struct buf *out)
{
	char text[WS_CONTROL_MAX] = "";

	if (result->data.len > 0)
		scrub_text(websocket->scrubs, result->data, text);
	return ws_write_frame(out, result->opcode, true, NULL,
			      (struct bytes){ text, result->data.len });
}

/* ---- reading ---- */

/* What becomes of a piece of a message, and of a control frame. */
typedef int pass(struct websocket *websocket, const struct ws_result *result, struct buf *out);

static int read_frames(struct websocket *websocket, struct ws_reader *reader, struct bytes data,
		       pass *on_piece, pass *on_control, struct buf *out)
{
	static struct ws_result result; /* large, and needed only in here */
	int r = 0;

	while (data.len > 0 && r == 0) {
		switch (ws_read(reader, &data, &result)) {
		case WS_FRAME:
			result.data.len = 0;
			if (result.is_end)
				r = on_piece(websocket, &result, out);
			break;
		case WS_DATA:
			r = on_piece(websocket, &result, out);
			break;
		case WS_CONTROL:
			r = on_control(websocket, &result, out);
			break;
		case WS_BROKEN:
			return -EPROTO;
		case WS_NEEDS_MORE:
			break;
		}
	}
	return r;
}

int websocket_read_agent(struct websocket *websocket, struct bytes data, struct buf *out)
{
	return read_frames(websocket, &websocket->from_agent, data, write_to_origin, pass_control,
			   out);
}

int websocket_read_origin(struct websocket *websocket, struct bytes data, struct buf *out)
{
	return read_frames(websocket, &websocket->from_origin, data, write_to_agent,
			   pass_control_back, out);
}

void websocket_write_close(enum ws_code code, struct buf *out)
{
	if (ws_write_close(out, code, NULL) < 0)
		abort(); /* it is a few bytes */
}
