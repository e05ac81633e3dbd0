/* SPDX-License-Identifier: MIT */
/* Reading a shared keeper's configuration. */
#include "cmd/shared_charter.h"

#include <stdlib.h>

#include "base/die.h"

/* A configuration as it was read; a charter lives by it, and frees it. */
struct reading {
	struct shared_config config; /* first, and in it the keeper's */
	struct config_file file;
	unsigned int use_count;
};

static void reading_unref(struct reading *reading)
{
	if (--reading->use_count > 0)
		return;
	shared_config_fini(&reading->config);
	config_file_fini(&reading->file);
	free(reading);
}

static void on_charter_free(struct charter *charter)
{
	reading_unref((struct reading *)(void *)charter->config);
}

const struct shared_config *shared_charter_config(const struct charter *charter)
{
	return &((const struct reading *)(const void *)charter->config)->config;
}

const struct shared_config *shared_charter_keep(const struct charter *charter)
{
	((struct reading *)(void *)charter->config)->use_count++;
	return shared_charter_config(charter);
}

void shared_charter_drop(const struct shared_config *config)
{
	if (config)
		reading_unref((struct reading *)(void *)config);
}

static int add_keys(struct charter *charter, struct keyring *ring,
		    const struct shared_key_list *list, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < list->count; i++)
		r = charter_add_key(charter, ring, list->keys[i].id, list->keys[i].source, err);
	return r;
}

/* What a file has of secrets is the charter's alone from here on. */
static int make_charter(struct reading *reading, struct charter **ret_charter, struct err *err)
{
	struct charter *charter;
	int r;

	for (size_t i = 0; i < reading->file.value_count; i++)
		secret_lend(reading->file.values[i].name, reading->file.values[i].text);
	r = charter_new(&reading->config.keeper, &charter, err);
	if (r < 0) {
		secret_forget_lent();
		reading_unref(reading);
		return r;
	}
	charter->on_free = on_charter_free;
	r = add_keys(charter, &charter->token_keys, &reading->config.token_keys, err);
	if (r == 0)
		r = add_keys(charter, &charter->link_keys, &reading->config.link_keys, err);
	secret_forget_lent();
	if (r < 0)
		charter_unref(charter);
	else
		*ret_charter = charter;
	return r;
}

int shared_charter_read(int argc, char **argv, struct charter **ret_charter, struct err *err)
{
	struct reading *reading = calloc(1, sizeof(*reading));
	int r;

	if (!reading)
		die_no_memory();
	reading->use_count = 1;
	*ret_charter = NULL;
	r = shared_config_read(&reading->config, &reading->file, argc, argv, err);
	if (r < 0 || reading->config.help) {
		reading_unref(reading);
		return r;
	}
	return make_charter(reading, ret_charter, err);
}
