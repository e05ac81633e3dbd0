/* SPDX-License-Identifier: MIT */
/* Three names. */
#include "tls/alpn.h"

#include "base/attr.h"

static const struct {
	enum tls_alpn alpn;
	struct bytes name;
} protocols[] = {
	{ TLS_ALPN_H2, { "h2", 2 } }, /* first: preferred */
	{ TLS_ALPN_HTTP1, { "http/1.1", 8 } },
	{ TLS_ALPN_WARDER, { "warder/1", 8 } },
};

enum tls_alpn tls_alpn_find(struct bytes name)
{
	if (bytes_equal(name, BYTES("http/1.0"))) /* never offered; read as 1.1 is */
		return TLS_ALPN_HTTP1;
	for (size_t i = 0; i < ARRAY_LEN(protocols); i++)
		if (bytes_equal(protocols[i].name, name))
			return protocols[i].alpn;
	return TLS_ALPN_NONE;
}

size_t tls_alpn_format(unsigned int set, unsigned char ret_wire[TLS_ALPN_WIRE_MAX])
{
	size_t len = 0;

	for (size_t i = 0; i < ARRAY_LEN(protocols); i++) {
		if (!(set & protocols[i].alpn))
			continue;
		ret_wire[len++] = (unsigned char)protocols[i].name.len;
		memcpy(ret_wire + len, protocols[i].name.data, protocols[i].name.len);
		len += protocols[i].name.len;
	}
	return len;
}
