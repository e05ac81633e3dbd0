/* SPDX-License-Identifier: MIT */
/* Secrets and where they come from. */
#include "keeper/secret.h"

#include <errno.h>
#include <fcntl.h>

#include "base/die.h"
#include "sys/fd.h"

struct secret {
	size_t len;
	char value[SECRET_MAX + 1];
};

static struct secret *secret_new(void)
{
	struct secret *secret = calloc(1, sizeof(*secret));

	if (!secret)
		die_no_memory();
	return secret;
}

static int read_env(const char *name, struct secret *secret, struct err *err)
{
	const char *value = getenv(name);

	if (!value)
		return err_say(err, ENOENT, "secret env:%.60s: the variable is not set", name);
	secret->len = strlen(value);
	if (secret->len > SECRET_MAX)
		return err_say(err, E2BIG, "secret env:%.60s is longer than %d bytes", name,
			       SECRET_MAX);
	memcpy(secret->value, value, secret->len);
	return 0;
}

static int read_file(const char *path, struct secret *secret, struct err *err)
{
	ssize_t len = fd_read_file(AT_FDCWD, path, secret->value, sizeof(secret->value));

	if (len == -EFBIG)
		return err_say(err, E2BIG, "secret file:%.200s is longer than %d bytes", path,
			       SECRET_MAX);
	if (len < 0)
		return err_set(err, (int)-len, "secret file:%.200s", path);
	if (len > 0 && secret->value[len - 1] == '\n')
		len--;
	if (len > 0 && secret->value[len - 1] == '\r')
		len--;
	secret->len = (size_t)len;
	return 0;
}

static const struct {
	const char *prefix;
	int (*read)(const char *what, struct secret *secret, struct err *err);
} sources[] = {
	{ "env:", read_env },
	{ "file:", read_file },
};

int secret_open(const char *source, struct secret **ret_secret, struct err *err)
{
	struct secret *secret;
	int r = -EINVAL;

	for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
		size_t len = strlen(sources[i].prefix);

		if (strncmp(source, sources[i].prefix, len) != 0)
			continue;
		secret = secret_new();
		r = sources[i].read(source + len, secret, err);
		if (r == 0 && secret->len == 0)
			r = err_say(err, ENODATA, "secret %.200s is empty", source);
		if (r == 0)
			*ret_secret = secret;
		else
			secret_free(secret);
		return r;
	}
	/* It may be the secret itself, given by mistake: it is not repeated. */
	return err_say(err, EINVAL, "a secret comes from env:NAME or file:PATH");
}

struct bytes secret_get(const struct secret *secret)
{
	return (struct bytes){ secret->value, secret->len };
}

void secret_free(struct secret *secret)
{
	if (!secret)
		return;
	explicit_bzero(secret, sizeof(*secret));
	free(secret);
}
