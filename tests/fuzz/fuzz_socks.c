/* SPDX-License-Identifier: MIT */
/*
 * SOCKS on any bytes: it says the same however they are cut, takes nothing that is not its own,
 * and what it calls a host is made of the letters of one.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "gate/socks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct summary {
	enum socks_event event;
	size_t taken, sent, sends;
	uint16_t port;
	char host[SOCKS_HOST_MAX + 1];
};

static void check_host(const struct socks_result *result)
{
	size_t len = strlen(result->host);

	if (len == 0 || result->port == 0 ||
	    strspn(result->host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				 "0123456789-_.:") != len)
		abort();
}

static void read_all(const uint8_t *data, size_t size, size_t piece, struct summary *ret_summary)
{
	struct socks socks = { .state = SOCKS_GREETING };
	struct socks_result result;

	memset(ret_summary, 0, sizeof(*ret_summary));
	while (socks.state != SOCKS_OVER && ret_summary->taken < size) {
		size_t left = size - ret_summary->taken, len = left < piece ? left : piece;
		struct bytes input = { (const char *)data + ret_summary->taken, len };

		ret_summary->event = socks_read(&socks, &input, &result);
		ret_summary->taken += len - input.len;
		ret_summary->sent += result.reply.len;
		if (ret_summary->event == SOCKS_NEEDS_MORE && input.len > 0)
			abort();
		if (ret_summary->event == SOCKS_SEND)
			ret_summary->sends++;
	}
	if (ret_summary->event != SOCKS_CONNECT)
		return;
	check_host(&result);
	ret_summary->port = result.port;
	snprintf(ret_summary->host, sizeof(ret_summary->host), "%s", result.host);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct summary whole, pieces;

	if (size == 0)
		return 0;
	read_all(data + 1, size - 1, size, &whole);
	read_all(data + 1, size - 1, data[0] % 7 + 1, &pieces);
	/* Of what is not SOCKS, more or less may have been taken until it was seen. */
	if (whole.event == SOCKS_CLOSE && pieces.event == SOCKS_CLOSE)
		whole.taken = pieces.taken;
	if (memcmp(&whole, &pieces, sizeof(whole)) != 0)
		abort();
	return 0;
}
