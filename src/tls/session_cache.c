/* SPDX-License-Identifier: MIT */
/* A short list of peers, each with its last session. */
#include "tls/session_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"

void session_peer_release(struct session_peer *peer)
{
	if (--peer->use_count > 0)
		return;
	SSL_SESSION_free(peer->session);
	free(peer);
}

void session_peer_set(struct session_peer *peer, SSL_SESSION *session)
{
	if (!peer->is_cached) {
		SSL_SESSION_free(session);
		return;
	}
	SSL_SESSION_free(peer->session);
	peer->session = session;
}

static void drop(struct session_peer **at)
{
	struct session_peer *peer = *at;

	*at = peer->next;
	peer->is_cached = false;
	SSL_SESSION_free(peer->session);
	peer->session = NULL;
	session_peer_release(peer);
}

void session_cache_fini(struct session_cache *cache)
{
	while (cache->peers)
		drop(&cache->peers);
}

static struct session_peer *new_peer(const char *name, uint16_t port)
{
	size_t size = strlen(name) + 1;
	struct session_peer *peer = calloc(1, sizeof(*peer) + size);

	if (!peer)
		die_no_memory();
	peer->use_count = 1;
	peer->is_cached = true;
	peer->port = port;
	memcpy(peer->name, name, size);
	return peer;
}

/* Takes the peer off the list; NULL if it is not there. */
static struct session_peer *take(struct session_cache *cache, const char *name, uint16_t port)
{
	struct session_peer **at = &cache->peers, *found;

	while (*at && ((*at)->port != port || strcasecmp((*at)->name, name) != 0))
		at = &(*at)->next;
	found = *at;
	if (found)
		*at = found->next;
	return found;
}

struct session_peer *session_cache_get(struct session_cache *cache, const char *name, uint16_t port)
{
	struct session_peer *peer = take(cache, name, port);
	struct session_peer **at = &cache->peers;

	if (!peer)
		peer = new_peer(name, port);
	peer->next = cache->peers;
	cache->peers = peer;
	for (size_t i = 0; *at && i < SESSION_CACHE_MAX; i++)
		at = &(*at)->next;
	if (*at)
		drop(at);
	peer->use_count++;
	return peer;
}
