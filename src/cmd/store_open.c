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
	int (*open)(struct loop *loop, const char *url, struct store **ret_store, struct err *err);
} backends[] = {
	{ "memory:", open_memory },         { "sqlite:", open_sqlite },
	{ "postgresql://", open_postgres }, { "redis://", open_redis },
	{ "redis+unix://", open_redis },
};

static int open_url(const char *url, struct loop *loop, struct store **ret_store, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(backends); i++)
		if (strncmp(url, backends[i].scheme, strlen(backends[i].scheme)) == 0)
			return backends[i].open(loop, url, ret_store, err);
	return err_say(err, EINVAL,
		       "--store: is not sqlite:PATH, postgresql://…, redis://… or memory:");
}

int store_open(const char *place, struct loop *loop, struct store **ret_store, struct err *err)
{
	char url[STATE_PATH_MAX + 8] = "sqlite:";
	struct secret *secret;
	int r;

	if (!place) {
		r = state_store_path(url + strlen("sqlite:"), err);
		return r < 0 ? r : open_url(url, loop, ret_store, err);
	}
	if (!shared_store_is_source(place))
		return open_url(place, loop, ret_store, err);
	r = secret_open(place, &secret, err);
	if (r < 0)
		return r;
	/* A secret's value has a NUL behind it. */
	r = open_url(secret_get(secret).data, loop, ret_store, err);
	secret_free(secret);
	return r;
}
