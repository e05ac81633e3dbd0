/* SPDX-License-Identifier: MIT */
/*
 * A D-Bus client that can make a call and read whether it worked.
 *
 * Written by hand because the alternative is a library whose own dependencies take
 * longer to load than a whole run takes to start. The peer is the user's own bus or
 * the system's; even so every length it sends is checked before it is used.
 */
#include "sys/bus.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "sys/fd.h"

#define REPLY_MAX       ((size_t)64 * 1024)
#define REPLIES_MAX     64 /* signals and the like that may come before ours */
#define TIMEOUT_SECONDS 5

#define TYPE_CALL   1
#define TYPE_RETURN 2
#define TYPE_ERROR  3

enum field {
	FIELD_PATH = 1,
	FIELD_INTERFACE = 2,
	FIELD_MEMBER = 3,
	FIELD_REPLY_SERIAL = 5,
	FIELD_DESTINATION = 6,
	FIELD_SIGNATURE = 8,
};

static void put(struct bus_message *message, const void *bytes, size_t len)
{
	assert(len <= sizeof(message->data) - message->len);
	memcpy(message->data + message->len, bytes, len);
	message->len += len;
}

void bus_align(struct bus_message *message, size_t to)
{
	static const unsigned char zero[8];

	put(message, zero, -message->len & (to - 1));
}

void bus_put_byte(struct bus_message *message, uint8_t value)
{
	put(message, &value, 1);
}

static void store_u32(unsigned char *at, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (unsigned char)(value >> (8 * i));
}

static uint32_t load_u32(const unsigned char *at)
{
	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

void bus_put_u32(struct bus_message *message, uint32_t value)
{
	unsigned char bytes[4];

	bus_align(message, 4);
	store_u32(bytes, value);
	put(message, bytes, sizeof(bytes));
}

void bus_put_string(struct bus_message *message, const char *text)
{
	bus_put_u32(message, (uint32_t)strlen(text));
	put(message, text, strlen(text) + 1);
}

void bus_put_signature(struct bus_message *message, const char *signature)
{
	bus_put_byte(message, (uint8_t)strlen(signature));
	put(message, signature, strlen(signature) + 1);
}

size_t bus_open_array(struct bus_message *message, size_t element_alignment)
{
	size_t opened;

	bus_put_u32(message, 0);
	opened = message->len - 4;
	bus_align(message, element_alignment);
	return opened;
}

void bus_close_array(struct bus_message *message, size_t opened, size_t element_alignment)
{
	size_t first = (opened + 4 + element_alignment - 1) & ~(element_alignment - 1);

	store_u32(message->data + opened, (uint32_t)(message->len - first));
}

static void put_field(struct bus_message *message, enum field field, const char *type,
		      const char *value)
{
	bus_align(message, 8);
	bus_put_byte(message, (uint8_t)field);
	bus_put_signature(message, type);
	if (*type == 'g')
		bus_put_signature(message, value);
	else
		bus_put_string(message, value);
}

static int send_call(int fd, const struct bus_call *call, const struct bus_message *body,
		     uint32_t serial)
{
	struct bus_message message = { .len = 0 };
	size_t fields;

	put(&message, (unsigned char[]){ 'l', TYPE_CALL, 0, 1 }, 4);
	bus_put_u32(&message, body ? (uint32_t)body->len : 0);
	bus_put_u32(&message, serial);
	fields = bus_open_array(&message, 8);
	put_field(&message, FIELD_PATH, "o", call->path);
	put_field(&message, FIELD_DESTINATION, "s", call->destination);
	put_field(&message, FIELD_INTERFACE, "s", call->interface);
	put_field(&message, FIELD_MEMBER, "s", call->member);
	if (body)
		put_field(&message, FIELD_SIGNATURE, "g", call->signature);
	bus_close_array(&message, fields, 8);
	bus_align(&message, 8);
	if (body)
		put(&message, body->data, body->len);
	return fd_write_all(fd, (const char *)message.data, message.len);
}

static int read_exactly(int fd, unsigned char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t n = recv(fd, bytes, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		if (n == 0)
			return -ECONNRESET;
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}

struct reply {
	unsigned char type;
	uint32_t serial; /* what it answers, or 0 */
	const unsigned char *body;
	size_t body_len;
	unsigned char data[REPLY_MAX];
};

/* Steps over one header field; notes the reply serial. Returns the new offset, or 0. */
static size_t read_field(struct reply *reply, size_t at, size_t end)
{
	unsigned char field, type;
	size_t len;

	at = (at + 7) & ~(size_t)7;
	if (at + 4 > end || reply->data[at + 1] != 1 || reply->data[at + 3] != 0)
		return 0;
	field = reply->data[at];
	type = reply->data[at + 2];
	at += 4;
	if (type == 'g')
		return at < end && at + reply->data[at] + 2 <= end ? at + reply->data[at] + 2 : 0;
	if ((type != 's' && type != 'o' && type != 'u') || at + 4 > end)
		return 0;
	len = load_u32(reply->data + at);
	at += 4;
	if (type == 'u') {
		if (field == FIELD_REPLY_SERIAL)
			reply->serial = (uint32_t)len;
		return at;
	}
	return len < end - at ? at + len + 1 : 0;
}

static int read_reply(int fd, struct reply *reply)
{
	size_t fields_len, body_len, at, body_at;
	int r = read_exactly(fd, reply->data, 16);

	if (r < 0)
		return r;
	if (reply->data[0] != 'l')
		return -EPROTO;
	reply->type = reply->data[1];
	reply->serial = 0;
	body_len = load_u32(reply->data + 4);
	fields_len = load_u32(reply->data + 12);
	if (fields_len > REPLY_MAX / 2 || body_len > REPLY_MAX / 4)
		return -EMSGSIZE;
	body_at = (16 + fields_len + 7) & ~(size_t)7;
	r = read_exactly(fd, reply->data + 16, body_at - 16 + body_len);
	if (r < 0)
		return r;
	for (at = 16; at < 16 + fields_len;) {
		at = read_field(reply, at, 16 + fields_len);
		if (at == 0)
			return -EPROTO;
	}
	reply->body = reply->data + body_at;
	reply->body_len = body_len;
	return 0;
}

/* An error's body starts with a text for people. */
static int say_error(const struct reply *reply, const char *member, struct err *err)
{
	size_t len = reply->body_len >= 4 ? load_u32(reply->body) : 0;

	if (len > reply->body_len - (len ? 4 : 0))
		len = 0;
	return err_say(err, EREMOTEIO, "%s refused: %.*s", member, (int)(len > 200 ? 200 : len),
		       len ? (const char *)reply->body + 4 : "");
}

int bus_send_call(int fd, const struct bus_call *call, const struct bus_message *body,
		  struct err *err)
{
	static _Atomic uint32_t last_serial;
	_cleanup_free_ struct reply *reply = malloc(sizeof(*reply));
	uint32_t serial = ++last_serial;
	int r;

	if (!reply)
		return err_set(err, ENOMEM, "call %s", call->member);
	r = send_call(fd, call, body, serial);
	for (int i = 0; r == 0 && i < REPLIES_MAX; i++) {
		r = read_reply(fd, reply);
		if (r < 0 || reply->serial != serial)
			continue;
		if (reply->type == TYPE_RETURN)
			return 0;
		if (reply->type == TYPE_ERROR)
			return say_error(reply, call->member, err);
	}
	return err_set(err, r < 0 ? -r : EPROTO, "call %s over the bus", call->member);
}

/* EXTERNAL authentication: the socket's own credentials, named in hex digits. */
static int authenticate(int fd)
{
	char text[128], uid[16];
	size_t len = 0;
	int r;

	snprintf(uid, sizeof(uid), "%u", (unsigned int)geteuid());
	text[len++] = '\0';
	len += (size_t)snprintf(text + len, sizeof(text) - len, "AUTH EXTERNAL ");
	for (const char *p = uid; *p; p++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%02x", *p);
	len += (size_t)snprintf(text + len, sizeof(text) - len, "\r\n");
	r = fd_write_all(fd, text, len);
	for (len = 0; r == 0 && (len == 0 || text[len - 1] != '\n'); len++) {
		if (len == sizeof(text))
			return -EPROTO;
		r = read_exactly(fd, (unsigned char *)text + len, 1);
	}
	if (r < 0)
		return r;
	if (len < 3 || memcmp(text, "OK ", 3) != 0)
		return -EACCES;
	return fd_write_all(fd, "BEGIN\r\n", strlen("BEGIN\r\n"));
}

int bus_open(const char *socket_path, struct err *err)
{
	static const struct bus_call hello = {
		.destination = "org.freedesktop.DBus",
		.path = "/org/freedesktop/DBus",
		.interface = "org.freedesktop.DBus",
		.member = "Hello",
	};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct timeval timeout = { .tv_sec = TIMEOUT_SECONDS };
	int r;

	if (fd < 0)
		return err_set(err, errno, "create a socket");
	if ((size_t)snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path) >=
	    sizeof(address.sun_path))
		return err_say(err, ENAMETOOLONG, "the bus address is too long");
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0 ||
	    connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return err_set(err, errno, "connect to the bus at %s", socket_path);
	r = authenticate(fd);
	if (r < 0)
		return err_set(err, -r, "authenticate to the bus at %s", socket_path);
	r = bus_send_call(fd, &hello, NULL, err);
	return r < 0 ? r : take_fd(&fd);
}
