/* SPDX-License-Identifier: MIT */
/* Reading a shared keeper's configuration. */
#include "cmd/shared_charter.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "keeper/command.h"

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

static int read_config(int argc, char **argv, struct reading **ret_reading, struct err *err)
{
	struct reading *reading = calloc(1, sizeof(*reading));
	int r;

	if (!reading)
		die_no_memory();
	reading->use_count = 1;
	r = shared_config_read(&reading->config, &reading->file, argc, argv, err);
	if (r < 0)
		reading_unref(reading);
	else
		*ret_reading = reading;
	return r;
}

int shared_charter_read(int argc, char **argv, struct charter **ret_charter, struct err *err)
{
	struct reading *reading;
	int r = read_config(argc, argv, &reading, err);

	*ret_charter = NULL;
	if (r == 0 && reading->config.help)
		reading_unref(reading);
	else if (r == 0)
		r = make_charter(reading, ret_charter, err);
	return r;
}

/* ---- beside other things ---- */

#define SOURCES_MAX (KEEPER_LLMS_MAX + KEEPER_SECRETS_MAX + 2 * SHARED_KEYS_MAX + 1)
static_assert(SOURCES_MAX <= SECRET_OUTPUTS_MAX, "each source may be lent");

struct shared_reading {
	struct reading *reading; /* or NULL: a charter has it */
	struct loop *loop;
	struct command *commands[SOURCES_MAX];
	size_t command_count, done_count;
	shared_on_read *on_read;
	void *owner;
	struct shared_reading **place;
};

static void free_reading(struct shared_reading *reading)
{
	for (size_t i = 0; i < reading->command_count; i++)
		command_free(reading->commands[i]);
	if (reading->reading)
		reading_unref(reading->reading);
	free(reading);
}

void shared_charter_cancel(struct shared_reading *reading)
{
	if (!reading)
		return;
	*reading->place = NULL;
	free_reading(reading);
}

/* With what went wrong, or NULL: then every command is done, and has something to say. */
static void end_reading(struct shared_reading *reading, const struct err *why, uint64_t now_ms)
{
	struct charter *charter = NULL;
	struct err err;

	*reading->place = NULL;
	if (!why) {
		for (size_t i = 0; i < reading->command_count; i++)
			secret_lend_output(reading->commands[i]);
		if (make_charter(reading->reading, &charter, &err) < 0)
			why = &err;
		reading->reading = NULL;
	}
	reading->on_read(reading->owner, charter, why, now_ms);
	secret_forget_outputs();
	free_reading(reading);
}

/* One that has failed is enough. */
static void on_command_done(struct command *command, uint64_t now_ms)
{
	struct shared_reading *reading = command_owner(command);
	struct bytes output;
	struct err err;

	reading->done_count++;
	if (command_output(command, &output, &err) < 0)
		end_reading(reading, &err, now_ms);
	else if (reading->done_count == reading->command_count)
		end_reading(reading, NULL, now_ms);
}

static size_t list_sources(const struct shared_config *config, const char *ret_sources[SOURCES_MAX])
{
	const struct shared_key_list *const lists[] = { &config->token_keys, &config->link_keys };
	size_t count = 0;

	for (size_t i = 0; i < config->keeper.llm_count; i++)
		ret_sources[count++] = config->keeper.llms[i].key;
	for (size_t i = 0; i < config->keeper.secret_count; i++)
		ret_sources[count++] = config->keeper.secrets[i].source;
	for (size_t k = 0; k < ARRAY_LEN(lists); k++)
		for (size_t i = 0; i < lists[k]->count; i++)
			ret_sources[count++] = lists[k]->keys[i].source;
	ret_sources[count++] = config->cert_key;
	return count;
}

/* Two may come from the same. */
static bool has_command(const struct shared_reading *reading, const char *text)
{
	for (size_t i = 0; i < reading->command_count; i++)
		if (strcmp(command_text(reading->commands[i]), text) == 0)
			return true;
	return false;
}

static int start_commands(struct shared_reading *reading, struct err *err)
{
	const char *sources[SOURCES_MAX];
	size_t count = list_sources(&reading->reading->config, sources);
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		struct command_config config = {
			.most_ms = COMMAND_MS,
			.on_done = on_command_done,
			.owner = reading,
			.is_apart = true,
		};

		if (!sources[i] || strncmp(sources[i], "exec:", 5) != 0)
			continue;
		config.text = sources[i] + 5;
		if (has_command(reading, config.text))
			continue;
		r = command_start(reading->loop, &config,
				  &reading->commands[reading->command_count], err);
		if (r == 0)
			reading->command_count++;
	}
	return r;
}

void shared_charter_start(struct loop *loop, int argc, char **argv, shared_on_read *on_read,
			  void *owner, struct shared_reading **place, uint64_t now_ms)
{
	struct shared_reading *reading = calloc(1, sizeof(*reading));
	struct err err;
	int r;

	if (!reading)
		die_no_memory();
	*reading = (struct shared_reading){
		.loop = loop, .on_read = on_read, .owner = owner, .place = place
	};
	r = read_config(argc, argv, &reading->reading, &err);
	if (r == 0)
		r = start_commands(reading, &err);
	if (r == 0 && reading->command_count > 0)
		*place = reading;
	else
		end_reading(reading, r < 0 ? &err : NULL, now_ms);
}
