/* SPDX-License-Identifier: MIT */
/* Reading registrations. From here on the bytes may be any local user's. */
#include "keeper/registration.h"

#include <errno.h>
#include <string.h>

#include "base/units.h"
#include "config/labels.h"

#define METADATA_PREFIX "metadata."

static int read_run_id(struct registration *registration, const char *name, const char *value)
{
	(void)name;
	if (registration->spec.run_id || !runid_is_valid(value))
		return -EINVAL;
	registration->spec.run_id = value;
	return 0;
}

static int read_attempt(struct registration *registration, const char *name, const char *value)
{
	uint64_t attempt;

	(void)name;
	if (registration->has_attempt || units_parse_count(value, &attempt) < 0 ||
	    attempt > UINT32_MAX)
		return -EINVAL;
	registration->has_attempt = true;
	registration->spec.attempt = (uint32_t)attempt;
	return 0;
}

static int read_account(struct registration *registration, const char *name, const char *value)
{
	(void)name;
	if (registration->spec.account || !label_is_account(value))
		return -EINVAL;
	registration->spec.account = value;
	return 0;
}

static int read_metadata(struct registration *registration, const char *name, const char *value)
{
	struct run_spec *spec = &registration->spec;
	size_t len = strlen(name) + strlen(value);

	if (!label_is_metadata(name, value) || spec->metadata_count == KEEPER_METADATA_MAX)
		return -EINVAL;
	for (size_t i = 0; i < spec->metadata_count; i++) {
		len += strlen(registration->metadata[i].name) +
		       strlen(registration->metadata[i].value);
		if (strcmp(registration->metadata[i].name, name) == 0)
			return -EINVAL;
	}
	if (len > KEEPER_METADATA_LEN)
		return -EINVAL;
	registration->metadata[spec->metadata_count++] = (struct keeper_metadata){ name, value };
	return 0;
}

static const struct {
	const char *name; /* one that ends with a dot begins many */
	int (*read)(struct registration *registration, const char *name, const char *value);
} rows[] = {
	{ "run-id", read_run_id },
	{ "attempt", read_attempt },
	{ "account", read_account },
	{ METADATA_PREFIX, read_metadata },
};

static int read_word(struct registration *registration, char *word)
{
	char *value = strchr(word, '=');

	if (!value)
		return -EINVAL;
	*value++ = '\0';
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t len = strlen(rows[i].name);
		bool is_prefix = rows[i].name[len - 1] == '.';

		if (is_prefix ? strncmp(word, rows[i].name, len) == 0
			      : strcmp(word, rows[i].name) == 0)
			return rows[i].read(registration, word + (is_prefix ? len : 0), value);
	}
	return -EINVAL;
}

int registration_parse(struct registration *registration, char *words, size_t len, struct err *err)
{
	char *end = words + len;

	registration->spec = (struct run_spec){ .metadata = registration->metadata };
	registration->has_attempt = false;
	while (words < end) {
		char *next = memchr(words, '\0', (size_t)(end - words));

		if (!next)
			return err_say(err, EINVAL,
				       "the keeper does not understand; is it of this version?");
		next++;
		if (read_word(registration, words) < 0)
			return err_say(err, EINVAL, "the keeper does not take '%.60s' from a run",
				       words);
		words = next;
	}
	return registration->spec.run_id
		       ? 0
		       : err_say(err, EINVAL,
				 "the keeper does not understand; is it of this version?");
}
