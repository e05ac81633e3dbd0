/* SPDX-License-Identifier: MIT */
/* Queries as a client writes them, and what it makes of the replies. */
#ifndef DNS_QUERY_H
#define DNS_QUERY_H

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <resolv.h>
#include <stdio.h>

#include "unit.h"

#include "gate/dns.h"

struct dns_query {
	size_t len;
	char data[1024];
};

static inline void dns_query_add(struct dns_query *query, const void *data, size_t len)
{
	assert_true(len <= sizeof(query->data) - query->len);
	if (len > 0)
		memcpy(query->data + query->len, data, len);
	query->len += len;
}

static inline void dns_query_add_u16(struct dns_query *query, unsigned int number)
{
	char bytes[2] = { (char)(number >> 8), (char)(number & 0xff) };

	dns_query_add(query, bytes, sizeof(bytes));
}

/* `text` is a name in dotted form; no escapes. */
static inline void dns_query_add_name(struct dns_query *query, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, ".");
		char len_byte = (char)len;

		dns_query_add(query, &len_byte, 1);
		dns_query_add(query, text, len);
		text += len + (text[len] == '.');
	}
	dns_query_add(query, "", 1);
}

static inline void dns_query_header(struct dns_query *query, unsigned int id, unsigned int flags,
				    unsigned int questions, unsigned int others)
{
	query->len = 0;
	dns_query_add_u16(query, id);
	dns_query_add_u16(query, flags);
	dns_query_add_u16(query, questions);
	dns_query_add_u16(query, 0);
	dns_query_add_u16(query, 0);
	dns_query_add_u16(query, others);
}

static inline void dns_query_make(struct dns_query *query, unsigned int id, const char *name,
				  unsigned int type)
{
	dns_query_header(query, id, 0x0100, 1, 0);
	dns_query_add_name(query, name);
	dns_query_add_u16(query, type);
	dns_query_add_u16(query, ns_c_in);
}

/* The reply in words, by the C library's own parser: "NOERROR 198.18.0.2". */
static inline const char *dns_reply_text(const char *reply, size_t len)
{
	static const char *const rcodes[] = { "NOERROR",  "FORMERR", "SERVFAIL",
					      "NXDOMAIN", "NOTIMP",  "REFUSED" };
	static char text[1100];
	char data[NS_MAXDNAME] = "";
	ns_msg message;
	ns_rr record;

	assert_int_equal(ns_initparse((const unsigned char *)reply, (int)len, &message), 0);
	assert_true(ns_msg_getflag(message, ns_f_qr));
	assert_true(ns_msg_getflag(message, ns_f_ra));
	assert_false(ns_msg_getflag(message, ns_f_tc));
	assert_true(ns_msg_count(message, ns_s_an) <= 1);
	assert_int_equal(ns_msg_count(message, ns_s_ns), 0);
	if (ns_msg_count(message, ns_s_an) == 1) {
		assert_int_equal(ns_parserr(&message, ns_s_an, 0, &record), 0);
		assert_int_equal(ns_rr_ttl(record), 60);
		assert_int_equal(ns_rr_class(record), ns_c_in);
		if (ns_rr_type(record) == ns_t_ptr)
			assert_true(ns_name_uncompress(ns_msg_base(message), ns_msg_end(message),
						       ns_rr_rdata(record), data,
						       sizeof(data)) > 0);
		else
			inet_ntop(ns_rr_type(record) == ns_t_a ? AF_INET : AF_INET6,
				  ns_rr_rdata(record), data, sizeof(data));
	}
	snprintf(text, sizeof(text), "%s%s%s", rcodes[ns_msg_getflag(message, ns_f_rcode) % 6],
		 *data ? " " : "", data);
	return text;
}

#endif
