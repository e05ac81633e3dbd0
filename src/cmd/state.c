/* SPDX-License-Identifier: MIT */
/* The default place of the audit log. */
#include "cmd/state.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes every directory on the way to a file. */
static int make_parents(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, 0700) < 0 && errno != EEXIST) {
			*slash = '/';
			return -errno;
		}
		*slash = '/';
	}
	return 0;
}

int state_audit_path(const char *given, char *ret_path, struct err *err)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int len;

	if (given) {
		len = snprintf(ret_path, STATE_PATH_MAX, "%s", given);
		return len < STATE_PATH_MAX ? 0 : err_set(err, ENAMETOOLONG, "the audit log");
	}
	if (state && state[0] == '/')
		len = snprintf(ret_path, STATE_PATH_MAX, "%s/warder/audit.jsonl", state);
	else if (home && home[0] == '/')
		len = snprintf(ret_path, STATE_PATH_MAX, "%s/.local/state/warder/audit.jsonl",
			       home);
	else
		return err_say(err, ENOENT,
			       "no place for the audit log: HOME is not set; say --audit FILE");
	if (len >= STATE_PATH_MAX)
		return err_set(err, ENAMETOOLONG, "the audit log");
	return 0;
}

/* For root in the system's place; for a user in what lasts as long as the session, or longer. */
int state_control_path(char *ret_path, struct err *err)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	int len;

	if (geteuid() == 0)
		len = snprintf(ret_path, STATE_PATH_MAX, "/run/warder/keeper.sock");
	else if (runtime && runtime[0] == '/')
		len = snprintf(ret_path, STATE_PATH_MAX, "%s/warder/keeper.sock", runtime);
	else
		return err_say(err, ENOENT,
			       "no place for the control socket: XDG_RUNTIME_DIR is not set; say "
			       "where with unix:PATH");
	return len < STATE_PATH_MAX ? 0 : err_set(err, ENAMETOOLONG, "the control socket");
}

int state_make_directory(char *path, struct err *err)
{
	int r = make_parents(path);

	return r < 0 ? err_set(err, -r, "make the directory of '%.200s'", path) : 0;
}

int state_store_path(char *ret_path, struct err *err)
{
	char *name;
	int r = state_audit_path(NULL, ret_path, err);

	if (r < 0)
		return err_say(err, ENOENT, "no place for the store: say --store sqlite:PATH");
	name = strrchr(ret_path, '/') + 1;
	snprintf(name, STATE_PATH_MAX - (size_t)(name - ret_path), "keeper.db");
	return state_make_directory(ret_path, err);
}

int state_make_parents(const char *given, char *path, struct err *err)
{
	int r = given ? 0 : make_parents(path);

	if (r < 0) {
		err_set(err, -r, "make the directory of the audit log '%.200s'", path);
		err_hint(err, "say --audit FILE for another place");
	}
	return r;
}
