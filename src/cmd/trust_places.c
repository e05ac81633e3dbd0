/* SPDX-License-Identifier: MIT */
/* A look into a few directories; nothing is searched. */
#include "cmd/trust_places.h"

#include <dirent.h>
#include <string.h>

#define JVM_DIR "/usr/lib/jvm"

/* ---- where things are ---- */

/* A variable as the command will have it, or NULL. */
static const char *get_variable(const struct run_config *config, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = config->env_count; i > 0; i--)
		if (strncmp(config->env[i - 1], name, len) == 0 && config->env[i - 1][len] == '=')
			return config->env[i - 1] + len + 1;
	return NULL;
}

static char *copy_path(struct run_config *config)
{
	const char *path = get_variable(config, "PATH");

	if (!path)
		path = getenv("PATH");
	return arena_strdup(&config->arena, path ? path : "/usr/local/bin:/usr/bin:/bin");
}

static void add(struct trust_places *places, const char *path)
{
	for (size_t i = 0; i < places->count; i++)
		if (strcmp(places->paths[i], path) == 0)
			return;
	if (places->count < TRUST_PLACES_MAX)
		places->paths[places->count++] = path;
}

/* The next name in a directory that begins so; NULL: there is none. */
static const char *next_name(DIR *dir, const char *prefix)
{
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' && strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
			return entry->d_name;
	return NULL;
}

static DIR *open_dir(struct run_config *config, const char *top, const char *name)
{
	return opendir(arena_printf(&config->arena, "%s/%s", top, name));
}

static void close_dir(DIR *dir)
{
	if (dir)
		closedir(dir);
}

/* ---- Python ---- */

/* An installation at `prefix`, which the sandbox has at `shown`. */
static void add_python(struct run_config *config, const char *prefix, const char *shown,
		       struct trust_places *places)
{
	static const char *const packages[] = { "site-packages", "dist-packages" };
	DIR *dir = open_dir(config, prefix, "lib");
	const char *version;

	while ((version = next_name(dir, "python3")))
		for (size_t i = 0; i < ARRAY_LEN(packages); i++) {
			const char *rest = arena_printf(&config->arena,
							"lib/%s/%s/certifi/cacert.pem", version,
							packages[i]);

			if (access(arena_printf(&config->arena, "%s/%s", prefix, rest), F_OK) == 0)
				add(places, arena_printf(&config->arena, "%s/%s", shown, rest));
		}
	close_dir(dir);
}

/* pyenv has its versions beside what is on PATH. */
static void add_pyenv(struct run_config *config, const char *root, struct trust_places *places)
{
	DIR *dir = open_dir(config, root, "versions");
	const char *version;

	while ((version = next_name(dir, ""))) {
		const char *prefix = arena_printf(&config->arena, "%s/versions/%s", root, version);

		add_python(config, prefix, prefix, places);
	}
	close_dir(dir);
}

static bool cut_end(char *path, const char *end)
{
	size_t len = strlen(path), end_len = strlen(end);

	if (len <= end_len || strcmp(path + len - end_len, end) != 0)
		return false;
	path[len - end_len] = '\0';
	return true;
}

void trust_places_python(struct run_config *config, struct trust_places *ret_places)
{
	static const char *const environments[] = { ".venv", "venv" };
	const char *workspace = config->workspace ? config->workspace : ".";
	char *list = copy_path(config), *dir;

	ret_places->count = 0;
	for (size_t i = 0; i < ARRAY_LEN(environments); i++)
		add_python(
			config, arena_printf(&config->arena, "%s/%s", workspace, environments[i]),
			arena_printf(&config->arena, "/workspace/%s", environments[i]), ret_places);
	while ((dir = strsep(&list, ":"))) {
		if (*dir != '/')
			continue;
		if (cut_end(dir, "/shims"))
			add_pyenv(config, dir, ret_places);
		else if (cut_end(dir, "/bin"))
			add_python(config, dir, dir, ret_places);
	}
}

/* ---- Java ---- */

static bool is_on_path(struct run_config *config, const char *name)
{
	char *list = copy_path(config), *dir;

	while ((dir = strsep(&list, ":")))
		if (*dir == '/' &&
		    access(arena_printf(&config->arena, "%s/%s", dir, name), X_OK) == 0)
			return true;
	return false;
}

static void add_java(struct run_config *config, const char *home, struct trust_places *places)
{
	/* The second is where version 8 has it. */
	add(places, arena_printf(&config->arena, "%s/lib/security/cacerts", home));
	add(places, arena_printf(&config->arena, "%s/jre/lib/security/cacerts", home));
}

bool trust_places_java(struct run_config *config, struct trust_places *ret_places)
{
	const char *home = get_variable(config, "JAVA_HOME"), *name;
	DIR *dir = opendir(JVM_DIR);

	ret_places->count = 0;
	if (home && *home == '/')
		add_java(config, home, ret_places);
	while ((name = next_name(dir, "")))
		add_java(config, arena_printf(&config->arena, JVM_DIR "/%s", name), ret_places);
	close_dir(dir);
	if (ret_places->count == 0 && !is_on_path(config, "java"))
		return false;
	add(ret_places, "/etc/ssl/certs/java/cacerts"); /* Debian; Java's own are links to it */
	add(ret_places, "/etc/pki/java/cacerts");       /* Fedora */
	return true;
}
