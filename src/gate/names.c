/* SPDX-License-Identifier: MIT */
/* Names and their numbers: a hash of names, and a list of places by when they were last used. */
#include "gate/names.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/die.h"

#define BUCKETS      (2 * NAMES_MAX)
#define FIRST_NUMBER 2          /* 0 is no host, 1 is the resolver */
#define V4_BASE      0xc6120000 /* 198.18.0.0 */
#define V4_COUNT     0x20000    /* /15 */
#define NONE         UINT16_MAX /* instead of a place */

static_assert(FIRST_NUMBER + NAMES_ROUNDS * NAMES_MAX < V4_COUNT, "the range is large enough");
static_assert(NAMES_MAX < NONE, "a place fits into 16 bits");

/* The first 8 bytes of every synthetic IPv6 address: a ULA prefix, "wa" "rd" "er". */
static const uint8_t v6_prefix[8] = { 0xfd, 0x77, 0x61, 0x72, 0x64, 0x65, 0x72, 0x00 };

struct place {
	uint16_t round;
	uint16_t next_in_bucket;
	uint16_t older, newer; /* by last use */
	char name[NAMES_NAME_MAX + 1];
};

/*
 * Large, but places are taken from the first one up and memory that nobody wrote to takes no
 * room: a run of a few names has a few pages of it.
 */
struct names {
	uint16_t count; /* places that were ever taken */
	uint16_t oldest, newest;
	uint16_t buckets[BUCKETS]; /* a place + 1; 0: empty */
	struct place places[NAMES_MAX];
};

struct names *names_new(void)
{
	struct names *names = calloc(1, sizeof(*names));

	if (!names)
		die_no_memory();
	names->oldest = names->newest = NONE;
	return names;
}

void names_free(struct names *names)
{
	free(names);
}

/* ---- by last use ---- */

static void append(struct names *names, uint16_t at)
{
	struct place *place = &names->places[at];

	place->older = names->newest;
	place->newer = NONE;
	if (names->newest == NONE)
		names->oldest = at;
	else
		names->places[names->newest].newer = at;
	names->newest = at;
}

static void take_out(struct names *names, uint16_t at)
{
	const struct place *place = &names->places[at];

	if (place->older == NONE)
		names->oldest = place->newer;
	else
		names->places[place->older].newer = place->newer;
	if (place->newer == NONE)
		names->newest = place->older;
	else
		names->places[place->newer].older = place->older;
}

static void use(struct names *names, uint16_t at)
{
	if (names->newest == at)
		return;
	take_out(names, at);
	append(names, at);
}

/* ---- by name ---- */

/* FNV-1a. An agent that makes its names collide only makes its own queries slower. */
static uint16_t *bucket_of(struct names *names, const char *name)
{
	uint32_t hash = 2166136261;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619;
	return &names->buckets[(hash ^ hash >> 16) % BUCKETS];
}

static uint16_t find(struct names *names, const char *name)
{
	uint16_t next = *bucket_of(names, name);

	while (next != 0 && strcmp(names->places[next - 1].name, name) != 0)
		next = names->places[next - 1].next_in_bucket;
	return next != 0 ? (uint16_t)(next - 1) : NONE;
}

static void forget(struct names *names, uint16_t at)
{
	uint16_t *link = bucket_of(names, names->places[at].name);

	while (*link != at + 1)
		link = &names->places[*link - 1].next_in_bucket;
	*link = names->places[at].next_in_bucket;
	take_out(names, at);
}

static uint16_t add(struct names *names, const char *name)
{
	uint16_t *bucket = bucket_of(names, name);
	struct place *place;
	uint16_t at;

	if (names->count < NAMES_MAX) {
		at = names->count++;
		place = &names->places[at];
	} else {
		at = names->oldest;
		place = &names->places[at];
		forget(names, at);
		place->round = (uint16_t)((place->round + 1) % NAMES_ROUNDS);
	}
	memcpy(place->name, name, strlen(name) + 1);
	place->next_in_bucket = *bucket;
	*bucket = (uint16_t)(at + 1);
	append(names, at);
	return at;
}

/* ---- addresses ---- */

void names_address(struct names *names, const char *name, struct in_addr *ret_v4,
		   struct in6_addr *ret_v6)
{
	uint32_t number;
	uint16_t at;

	assert(*name && strlen(name) <= NAMES_NAME_MAX);
	at = find(names, name);
	if (at == NONE)
		at = add(names, name);
	else
		use(names, at);
	number = FIRST_NUMBER + (uint32_t)names->places[at].round * NAMES_MAX + at;
	ret_v4->s_addr = htonl(V4_BASE + number);
	*ret_v6 = (struct in6_addr){ 0 };
	memcpy(ret_v6->s6_addr, v6_prefix, sizeof(v6_prefix));
	number = htonl(number);
	memcpy(ret_v6->s6_addr + 12, &number, sizeof(number));
}

/* The number of an address, or 0: it is not one of ours. */
static uint32_t number_of_v4(struct in_addr address)
{
	uint32_t number = ntohl(address.s_addr) - V4_BASE;

	return number < V4_COUNT ? number : 0;
}

static uint32_t number_of_v6(const struct in6_addr *address)
{
	uint32_t words[4];

	memcpy(words, address->s6_addr, sizeof(words));
	if (IN6_IS_ADDR_V4MAPPED(address))
		return number_of_v4((struct in_addr){ .s_addr = words[3] });
	if (memcmp(words, v6_prefix, sizeof(v6_prefix)) != 0 || words[2] != 0)
		return 0;
	return ntohl(words[3]);
}

static uint32_t number_of(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
		return number_of_v4(((const struct sockaddr_in *)(const void *)address)->sin_addr);
	if (address->sa_family == AF_INET6)
		return number_of_v6(
			&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
	return 0;
}

const char *names_of_address(struct names *names, const struct sockaddr *address)
{
	uint32_t number = number_of(address), place;

	if (number < FIRST_NUMBER)
		return NULL;
	number -= FIRST_NUMBER;
	place = number % NAMES_MAX;
	if (place >= names->count || names->places[place].round != number / NAMES_MAX)
		return NULL;
	use(names, (uint16_t)place);
	return names->places[place].name;
}
