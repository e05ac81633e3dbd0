/* SPDX-License-Identifier: MIT */
/* As much of D-Bus as one method call to systemd needs. */
#ifndef SYS_BUS_H
#define SYS_BUS_H

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

#define BUS_MESSAGE_MAX 2048

/* A message under construction; little-endian, values aligned as the format wants. */
struct bus_message {
	unsigned char data[BUS_MESSAGE_MAX];
	size_t len;
};

void bus_put_byte(struct bus_message *message, uint8_t value);
void bus_put_u32(struct bus_message *message, uint32_t value);
void bus_put_string(struct bus_message *message, const char *text);
void bus_put_signature(struct bus_message *message, const char *signature);
void bus_align(struct bus_message *message, size_t to);

/* Arrays are prefixed with the length of what follows. Returns the place to patch. */
size_t bus_open_array(struct bus_message *message, size_t element_alignment);
void bus_close_array(struct bus_message *message, size_t opened, size_t element_alignment);

/* Connects to the bus at a socket path and says hello; the caller owns the descriptor. */
int bus_open(const char *socket_path, struct err *err) must_check;

struct bus_call {
	const char *destination, *path, *interface, *member, *signature;
};

/* Sends a call and waits, for a bounded time, for its answer: 0, or the error it got. */
int bus_send_call(int fd, const struct bus_call *call, const struct bus_message *body,
		  struct err *err) must_check;

#endif
