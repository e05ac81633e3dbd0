/* SPDX-License-Identifier: MIT */
/* Backends by their scheme. */
#include "cmd/store_open.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "cmd/state.h"
#include "config/shared_config.h"
#include "keeper/secret.h"
#include "store/journal.h"
#include "store/postgres.h"
#include "store/redis.h"

static int open_memory(struct loop *loop, const char *url, struct store **ret_store,
		       struct err *err)
{
	(void)url;
	(void)err;
	*ret_store = store_local_new(loop, NULL);
	return 0;
}

static int open_sqlite(struct loop *loop, const char *url, struct store **ret_store,
		       struct err *err)
{
	struct journal *journal = journal_open_sqlite(url + strlen("sqlite:"), err);

	if (!journal)
		return -EIO;
	*ret_store = store_local_new(loop, journal);
	return 0;
}

static int open_postgres(struct loop *loop, const char *url, struct store **ret_store,
			 struct err *err)
{
	*ret_store = store_postgres_new(loop, url, err);
	return *ret_store ? 0 : -EINVAL;
}

static int open_redis(struct loop *loop, const char *url, struct store **ret_store, struct err *err)
{
	*ret_store = store_redis_new(loop, url, err);
	return *ret_store ? 0 : -EINVAL;
}

static const struct {
	const char *scheme;
	enum store_kind kind;
	int (*open)(struct loop *loop, const char *url, struct store **ret_store, struct err *err);
} backends[] = {
	{ "memory:", STORE_OWN, open_memory },
	{ "sqlite:", STORE_OWN, open_sqlite },
	{ "postgresql://", STORE_SHARED, open_postgres },
	{ "redis://", STORE_SHARED, open_redis },
	{ "redis+unix://", STORE_SHARED, open_redis },
};

static int open_url(const char *url, unsigned int kinds, struct loop *loop,
		    struct store **ret_store, struct err *err)
{
	*ret_store = NULL;
	for (size_t i = 0; i < ARRAY_LEN(backends); i++)
		if (strncmp(url, backends[i].scheme, strlen(backends[i].scheme)) == 0)
			return backends[i].kind & kinds
				       ? backends[i].open(loop, url, ret_store, err)
				       : 0;
	return err_say(err, EINVAL,
		       "--store: is not sqlite:PATH, postgresql://…, redis://… or memory:");
}

int store_open(const char *place, unsigned int kinds, struct loop *loop, struct store **ret_store,
	       struct err *err)
{
	char url[STATE_PATH_MAX + 8] = "sqlite:";
	struct secret *secret;
	int r;

	if (!place) {
		r = state_store_path(url + strlen("sqlite:"), err);
		return r < 0 ? r : open_url(url, kinds, loop, ret_store, err);
	}
	if (!shared_store_is_source(place))
		return open_url(place, kinds, loop, ret_store, err);
	r = secret_open(place, &secret, err);
	if (r < 0)
		return r;
	/* A secret's value has a NUL behind it. */
	r = open_url(secret_get(secret).data, kinds, loop, ret_store, err);
	secret_free(secret);
	return r;
}
