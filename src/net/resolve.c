/* SPDX-License-Identifier: MIT */
/*
 * Lookups, and what they found.
 *
 * A lookup is made when a name is first asked for. It puts two questions, for AAAA and for A,
 * and lives at least until both are answered, whether or not anybody is still waiting. Those
 * who wait are told
 *
 *  - at once when there are IPv6 addresses;
 *  - when there are only IPv4 ones, 50 ms later, unless the IPv6 ones come first;
 *  - finally, when both are answered.
 *
 * Then the lookup, if it found anything, is the cache's entry until its time is up.
 */
#include "net/resolve.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/die.h"
#include "base/list.h"
#include "net/dns.h"

#define RESOLUTION_DELAY_MS 50   /* RFC 8305, section 8 */
#define HOSTS_KEEP_MS       5000 /* the hosts file has no time to live */

enum family {
	FAMILY_V6,
	FAMILY_V4,
	FAMILY_COUNT,
};

static const int family_numbers[FAMILY_COUNT] = { AF_INET6, AF_INET };

/* One of the two questions of a lookup, as c-ares gives it back. */
struct part {
	struct lookup *lookup;
	enum family family;
	bool is_answered;
};

struct lookup {
	struct resolver *resolver;
	struct lookup *next;
	struct part parts[FAMILY_COUNT];
	struct resolve *waiting;
	struct loop_timer delay;
	bool is_usable; /* those who wait have been told of something */
	struct resolve_answer answer;
	uint64_t expires_ms;
	int code; /* as on_answer has it */
	const char *why;
	char name[RESOLVE_NAME_MAX + 1];
};

struct resolver {
	struct dns dns;
	struct lookup *lookups;
};

/* ---- addresses ---- */

static bool is_empty(const struct resolve_answer *answer)
{
	return answer->v6_count + answer->v4_count == 0;
}

static void add_address(struct resolve_answer *answer, int family, const void *bytes)
{
	if (family == AF_INET6 && answer->v6_count < RESOLVE_FAMILY_MAX)
		memcpy(&answer->v6[answer->v6_count++], bytes, sizeof(struct in6_addr));
	else if (family == AF_INET && answer->v4_count < RESOLVE_FAMILY_MAX)
		memcpy(&answer->v4[answer->v4_count++], bytes, sizeof(struct in_addr));
}

static bool is_localhost(const char *name)
{
	static const char localhost[] = "localhost";
	size_t len = strlen(name);

	if (len > 0 && name[len - 1] == '.')
		len--;
	if (len < sizeof(localhost) - 1)
		return false;
	name += len - (sizeof(localhost) - 1);
	return strncasecmp(name, localhost, sizeof(localhost) - 1) == 0 &&
	       (len == sizeof(localhost) - 1 || name[-1] == '.');
}

size_t resolve_literal(const char *text, unsigned char ret_bytes[16])
{
	char inner[INET6_ADDRSTRLEN];
	size_t len = strlen(text);

	if (inet_pton(AF_INET, text, ret_bytes) == 1)
		return 4;
	if (inet_pton(AF_INET6, text, ret_bytes) == 1)
		return 16;
	if (len < 3 || len - 2 >= sizeof(inner) || text[0] != '[' || text[len - 1] != ']')
		return 0;
	memcpy(inner, text + 1, len - 2);
	inner[len - 2] = '\0';
	return inet_pton(AF_INET6, inner, ret_bytes) == 1 ? 16 : 0;
}

/*
 * What may be asked for: letters, digits, hyphens, underscores, dots; and not what others may
 * take for an address, "127.1" or "0x7f000001": no name ends in a label that begins like a
 * number and is one.
 */
static bool is_name(const char *name)
{
	static const char
		allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	size_t len = strlen(name);
	const char *last, *rest;

	if (len == 0 || len > RESOLVE_NAME_MAX || strspn(name, allowed) != len)
		return false;
	if (name[len - 1] == '.')
		len--;
	for (last = name + len; last > name && last[-1] != '.'; last--)
		;
	rest = last;
	if (last[0] == '0' && (last[1] == 'x' || last[1] == 'X'))
		rest += 2 + strspn(last + 2, "0123456789abcdefABCDEF");
	else
		rest += strspn(last, "0123456789");
	return rest != name + len;
}

/* ---- who waits ---- */

static void wait_for(struct lookup *lookup, struct resolve *question)
{
	question->lookup = lookup;
	LIST_ADD(&lookup->waiting, question);
}

void resolve_cancel(struct resolve *question)
{
	if (!question->lookup)
		return;
	LIST_REMOVE(question);
	question->lookup = NULL;
}

static void tell(struct lookup *lookup, struct resolve *question, bool is_final, uint64_t now_ms)
{
	if (is_final)
		resolve_cancel(question);
	question->on_answer(question, &lookup->answer, is_final, lookup->code, lookup->why, now_ms);
}

static void tell_all(struct lookup *lookup, bool is_final, uint64_t now_ms)
{
	struct resolve *next;

	lookup->is_usable = true;
	for (struct resolve *question = lookup->waiting; question; question = next) {
		next = question->next;
		tell(lookup, question, is_final, now_ms);
	}
}

/* ---- the table ---- */

static bool is_open(const struct lookup *lookup)
{
	return !lookup->parts[FAMILY_V6].is_answered || !lookup->parts[FAMILY_V4].is_answered;
}

static void drop(struct lookup **at)
{
	struct lookup *lookup = *at;

	assert(!lookup->waiting);
	loop_cancel(lookup->resolver->dns.loop, &lookup->delay);
	*at = lookup->next;
	free(lookup);
}

/* Drops what is out of date, and what would expire first while there is too much. */
static void tidy(struct resolver *resolver, uint64_t now_ms)
{
	struct lookup **first = NULL, **at = &resolver->lookups;
	size_t count = 0;

	while (*at) {
		bool is_kept = is_open(*at) || (*at)->expires_ms > now_ms;

		if (!is_kept) {
			drop(at);
			continue;
		}
		if (!is_open(*at)) {
			count++;
			if (!first || (*at)->expires_ms < (*first)->expires_ms)
				first = at;
		}
		at = &(*at)->next;
	}
	/* One is added at a time, so one is enough. */
	if (count > RESOLVE_CACHE_MAX)
		drop(first);
}

static struct lookup *find(struct resolver *resolver, const char *name)
{
	struct lookup *lookup = resolver->lookups;

	while (lookup && strcasecmp(lookup->name, name) != 0)
		lookup = lookup->next;
	return lookup;
}

static void on_delay_due(struct loop_timer *timer, uint64_t now_ms)
{
	tell_all(OWNER_OF(timer, struct lookup, delay), false, now_ms);
}

static struct lookup *add_lookup(struct resolver *resolver, const char *name, uint64_t now_ms)
{
	struct lookup *lookup = calloc(1, sizeof(*lookup));

	if (!lookup)
		die_no_memory();
	lookup->resolver = resolver;
	lookup->delay.on_due = on_delay_due;
	lookup->expires_ms = now_ms + RESOLVE_KEEP_MS;
	memcpy(lookup->name, name, strlen(name) + 1); /* is_name has looked at its length */
	for (int i = 0; i < FAMILY_COUNT; i++)
		lookup->parts[i] = (struct part){ .lookup = lookup, .family = (enum family)i };
	lookup->next = resolver->lookups;
	resolver->lookups = lookup;
	return lookup;
}

/* ---- answers ---- */

/* May free the lookup. */
static void finish(struct lookup *lookup, uint64_t now_ms)
{
	loop_cancel(lookup->resolver->dns.loop, &lookup->delay);
	if (is_empty(&lookup->answer))
		lookup->expires_ms = now_ms; /* tried anew by the next who asks */
	else
		lookup->code = 0;
	tell_all(lookup, true, now_ms);
	tidy(lookup->resolver, now_ms);
}

/* What failed for want of a server outweighs what does not exist: it may be there after all. */
static void note_failure(struct lookup *lookup, int status)
{
	bool is_absent = status == ARES_ENOTFOUND || status == ARES_ENODATA ||
			 status == ARES_ENONAME || status == ARES_EBADNAME;

	if (status == ARES_ENOMEM)
		die_no_memory();
	if (lookup->code == EAGAIN)
		return;
	lookup->code = is_absent ? ENOENT : EAGAIN;
	lookup->why = ares_strerror(status);
}

static void note_addresses(struct lookup *lookup, const struct ares_addrinfo *found,
			   uint64_t now_ms)
{
	for (const struct ares_addrinfo_node *node = found->nodes; node; node = node->ai_next) {
		uint64_t ttl_ms = node->ai_ttl > 0 ? (uint64_t)node->ai_ttl * 1000 : 0;

		if (node->ai_family == AF_INET6)
			add_address(&lookup->answer, AF_INET6,
				    &((struct sockaddr_in6 *)(void *)node->ai_addr)->sin6_addr);
		else if (node->ai_family == AF_INET)
			add_address(&lookup->answer, AF_INET,
				    &((struct sockaddr_in *)(void *)node->ai_addr)->sin_addr);
		if (now_ms + ttl_ms < lookup->expires_ms)
			lookup->expires_ms = now_ms + ttl_ms;
	}
}

/* From here on the bytes are a name server's; c-ares has parsed them. */
static void on_addresses(void *arg, int status, int timeouts, struct ares_addrinfo *found)
{
	struct part *part = arg;
	struct lookup *lookup = part->lookup;
	struct dns *dns = &lookup->resolver->dns;

	(void)timeouts;
	part->is_answered = true;
	if (status == ARES_SUCCESS)
		note_addresses(lookup, found, dns->now_ms);
	else
		note_failure(lookup, status);
	if (found)
		ares_freeaddrinfo(found);

	if (!is_open(lookup))
		finish(lookup, dns->now_ms);
	else if (lookup->answer.v6_count > 0)
		tell_all(lookup, false, dns->now_ms);
	else if (lookup->answer.v4_count > 0)
		loop_set_timer(dns->loop, &lookup->delay, dns->now_ms + RESOLUTION_DELAY_MS);
}

static void ask_servers(struct lookup *lookup, uint64_t now_ms)
{
	/* The second answer, which may come from within, may free the lookup. */
	for (int i = 0; i < FAMILY_COUNT; i++)
		dns_ask(&lookup->resolver->dns, lookup->name, family_numbers[i], on_addresses,
			&lookup->parts[i], now_ms);
}

static void ask_hosts(struct lookup *lookup)
{
	for (int i = 0; i < FAMILY_COUNT; i++) {
		struct hostent *host = NULL;

		if (dns_find_in_hosts(&lookup->resolver->dns, lookup->name, family_numbers[i],
				      &host) != ARES_SUCCESS)
			continue;
		for (char **address = host->h_addr_list; *address; address++)
			add_address(&lookup->answer, host->h_addrtype, *address);
		ares_free_hostent(host);
	}
}

static void start_lookup(struct lookup *lookup, uint64_t now_ms)
{
	ask_hosts(lookup);
	if (is_empty(&lookup->answer)) {
		ask_servers(lookup, now_ms);
		return;
	}
	lookup->expires_ms = now_ms + HOSTS_KEEP_MS;
	lookup->parts[FAMILY_V6].is_answered = lookup->parts[FAMILY_V4].is_answered = true;
	finish(lookup, now_ms);
}

/* ---- questions ---- */

/* What needs no lookup; false for what does. */
static bool answer_at_once(struct resolve *question, const char *name, uint64_t now_ms)
{
	struct resolve_answer answer = { .v6_count = 0 };
	unsigned char bytes[16];
	size_t len = resolve_literal(name, bytes);

	if (len > 0) {
		add_address(&answer, len == 4 ? AF_INET : AF_INET6, bytes);
	} else if (!is_name(name)) {
		question->on_answer(question, &answer, true, ENOENT, "not a host name", now_ms);
		return true;
	} else if (is_localhost(name)) { /* RFC 6761, section 6.3: never a server's to say */
		const struct in_addr loopback = { htonl(INADDR_LOOPBACK) };

		add_address(&answer, AF_INET6, &in6addr_loopback);
		add_address(&answer, AF_INET, &loopback);
	} else {
		return false;
	}
	question->on_answer(question, &answer, true, 0, NULL, now_ms);
	return true;
}

void resolve_start(struct resolver *resolver, struct resolve *question, const char *name,
		   uint64_t now_ms)
{
	struct lookup *lookup;

	question->lookup = NULL;
	if (answer_at_once(question, name, now_ms))
		return;
	tidy(resolver, now_ms);
	lookup = find(resolver, name);
	if (!lookup) {
		lookup = add_lookup(resolver, name, now_ms);
		wait_for(lookup, question);
		start_lookup(lookup, now_ms);
	} else if (is_open(lookup)) {
		wait_for(lookup, question);
		if (lookup->is_usable)
			tell(lookup, question, false, now_ms);
	} else {
		question->on_answer(question, &lookup->answer, true, 0, NULL, now_ms);
	}
}

struct resolver *resolver_new(struct loop *loop)
{
	struct resolver *resolver = calloc(1, sizeof(*resolver));

	if (!resolver)
		die_no_memory();
	dns_init(&resolver->dns, loop);
	return resolver;
}

void resolver_free(struct resolver *resolver)
{
	if (!resolver)
		return;
	dns_fini(&resolver->dns); /* answers what is open, so every lookup can go */
	while (resolver->lookups)
		drop(&resolver->lookups);
	free(resolver);
}

void resolver_set_no_search(struct resolver *resolver)
{
	resolver->dns.has_no_search = true;
}

void resolver_set_servers(struct resolver *resolver, const char *servers)
{
	dns_set_servers(&resolver->dns, servers);
	while (resolver->lookups)
		drop(&resolver->lookups);
}
