/* SPDX-License-Identifier: MIT */
/*
 * Sessions to resume, one per peer, the least recently used one dropped first.
 *
 * A peer is counted by the streams that use it, because TLS 1.3 hands out its tickets long after
 * the handshake; one that has been dropped takes no more sessions and goes with its last stream.
 */
#ifndef TLS_SESSION_CACHE_H
#define TLS_SESSION_CACHE_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SESSION_CACHE_MAX 64

struct session_peer {
	struct session_peer *next;
	SSL_SESSION *session; /* or NULL */
	size_t use_count;     /* of streams, and of the cache */
	bool is_cached;
	uint16_t port;
	char name[];
};

struct session_cache {
	struct session_peer *peers; /* the most recently used one first */
};

void session_cache_fini(struct session_cache *cache);

/* The peer, new or known; given back with session_peer_release. */
struct session_peer *session_cache_get(struct session_cache *cache, const char *name,
				       uint16_t port);
void session_peer_release(struct session_peer *peer);

/* Takes the session over, instead of the one before. */
void session_peer_set(struct session_peer *peer, SSL_SESSION *session);

#endif
