/* SPDX-License-Identifier: MIT */
/* The default place of the audit log. */
#include "cmd/state.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

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

int state_make_parents(const char *given, char *path, struct err *err)
{
	int r = given ? 0 : make_parents(path);

	if (r < 0) {
		err_set(err, -r, "make the directory of the audit log '%.200s'", path);
		err_hint(err, "say --audit FILE for another place");
	}
	return r;
}
