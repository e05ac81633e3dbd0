/* SPDX-License-Identifier: MIT */
/*
 * Follows the way to a file, component by component and link by link, and looks at every
 * directory on it: whoever can write to one of them decides what is found at its end.
 */
#include "cmd/exposure.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/state.h"
#include "sandbox/paths.h"

#define LINKS_MAX 40

/* ---- what the agent is shown ---- */

static bool is_within(const char *real, const char *top)
{
	_cleanup_free_ char *real_top = realpath(top, NULL);

	return real_top && path_is_within(real, real_top);
}

/* Where the agent sees a path of the host, which has no links in it; NULL: nowhere. */
static const char *find_exposed(const struct run_config *config, const char *real, bool is_writable)
{
	static const char *const system[] = { "/usr", "/opt",   "/bin",  "/sbin",
					      "/lib", "/lib32", "/lib64" };
	const char *workspace = config->workspace ? config->workspace : ".";

	if (is_within(real, workspace))
		return workspace;
	for (size_t i = 0; !is_writable && i < ARRAY_LEN(system); i++)
		if (is_within(real, system[i]))
			return system[i];
	for (size_t i = 0; i < config->mount_count; i++) {
		const struct warder_mount *mount = &config->mounts[i];

		if ((mount->mode == WARDER_MOUNT_RW ||
		     (mount->mode == WARDER_MOUNT_RO && !is_writable)) &&
		    is_within(real, mount->source))
			return mount->source;
	}
	return NULL;
}

/* ---- the way to a file ---- */

struct walk {
	char done[PATH_MAX]; /* without links; "/" or without a slash at its end */
	char left[PATH_MAX]; /* what is still to be followed */
	int links;
};

/* Takes the next component off what is left; false when there is none. */
static bool take_component(struct walk *walk, char *ret_name)
{
	size_t skip = strspn(walk->left, "/"), len = strcspn(walk->left + skip, "/");

	memcpy(ret_name, walk->left + skip, len);
	ret_name[len] = '\0';
	memmove(walk->left, walk->left + skip + len, strlen(walk->left + skip + len) + 1);
	return len > 0;
}

static bool append(char *path, const char *name)
{
	size_t len = strcmp(path, "/") == 0 ? 0 : strlen(path);

	return (size_t)snprintf(path + len, PATH_MAX - len, "/%s", name) < PATH_MAX - len;
}

static void go_up(char *path)
{
	char *slash = strrchr(path, '/');

	slash[slash == path] = '\0';
}

/* A link is replaced by where it leads to. */
static bool follow(struct walk *walk, const char *link)
{
	char target[PATH_MAX];
	ssize_t len = readlink(link, target, sizeof(target) - 1);

	if (len <= 0 || ++walk->links > LINKS_MAX)
		return false;
	target[len] = '\0';
	if ((size_t)len + strlen(walk->left) + 1 >= sizeof(walk->left))
		return false;
	memmove(walk->left + len + 1, walk->left, strlen(walk->left) + 1);
	memcpy(walk->left, target, (size_t)len);
	walk->left[len] = '/';
	if (target[0] == '/')
		memcpy(walk->done, "/", 2);
	return true;
}

/* One component further; false where there is nothing more to follow. */
static bool step(struct walk *walk, const char *name)
{
	char next[PATH_MAX];
	struct stat st;

	if (strcmp(name, ".") == 0)
		return true;
	if (strcmp(name, "..") == 0) {
		go_up(walk->done);
		return true;
	}
	memcpy(next, walk->done, sizeof(next));
	if (!append(next, name) || lstat(next, &st) < 0)
		return false;
	if (S_ISLNK(st.st_mode))
		return follow(walk, next);
	memcpy(walk->done, next, sizeof(walk->done));
	return true;
}

/*
 * Where the agent could change what is found at a path, or, unless `only_writable`, see it; NULL:
 * nowhere. A file that does not exist yet is where its directory is.
 */
static const char *find_exposure(const struct run_config *config, const char *path,
				 bool only_writable)
{
	struct walk walk = { .done = "/" };
	char name[PATH_MAX];
	const char *exposed = NULL;

	if (path[0] != '/' && !getcwd(walk.done, sizeof(walk.done)))
		return "/";
	if (strlen(path) >= sizeof(walk.left))
		return "/"; /* nothing that long can be opened */
	memcpy(walk.left, path, strlen(path) + 1);
	do {
		exposed = find_exposed(config, walk.done, true);
	} while (!exposed && take_component(&walk, name) && step(&walk, name));
	return exposed || only_writable ? exposed : find_exposed(config, walk.done, false);
}

/* ---- files ---- */

static int refuse(struct err *err, const char *what, const char *path, const char *exposed,
		  const char *remedy)
{
	return err_say(err, EINVAL,
		       "%s '%.120s' lies in or leads through '%.120s', which the agent is "
		       "shown; %s",
		       what, path, exposed, remedy);
}

/* INV-AUDIT-FIRST is worth nothing where the agent can change, or lock, what was written. */
static int check_audit(const struct run_config *config, struct err *err)
{
	char path[STATE_PATH_MAX];
	const char *exposed;
	int r = state_audit_path(config->keeper.audit, path, err);

	if (r < 0)
		return r;
	exposed = find_exposure(config, path, false);
	return exposed ? refuse(err, "the audit log", path, exposed,
				"say --audit FILE for another place")
		       : 0;
}

/* INV-SECRETS-HOST-ONLY: a key in a file that the agent is shown is no secret. */
static int check_key(const struct run_config *config, const char *source, struct err *err)
{
	const char *exposed = NULL;

	if (source && strncmp(source, "file:", 5) == 0)
		exposed = find_exposure(config, source + 5, false);
	return exposed ? refuse(err, "the secret", source, exposed, "keep it elsewhere") : 0;
}

static int check_keys(const struct run_config *config, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < config->keeper.llm_count; i++)
		r = check_key(config, config->keeper.llms[i].key, err);
	for (size_t i = 0; r == 0 && i < config->keeper.secret_count; i++)
		r = check_key(config, config->keeper.secrets[i].source, err);
	return r < 0 ? r : check_key(config, config->keeper_token, err);
}

/*
 * INV-RUN-IDENTITY: whoever can reach the control socket, and is of our user as the agent may be,
 * can register runs and revoke others.
 */
static int check_shared(const struct run_config *config, struct err *err)
{
	const char *address = config->keeper_address, *exposed = NULL;

	if (address && strncmp(address, "unix:", 5) == 0)
		exposed = find_exposure(config, address + 5, false);
	if (exposed)
		return refuse(err, "the keeper's socket", address + 5, exposed,
			      "put it elsewhere, or name another --workspace");
	exposed = config->keeper_ca ? find_exposure(config, config->keeper_ca, true) : NULL;
	return exposed ? refuse(err, "the keeper's certificates", config->keeper_ca, exposed,
				"keep them elsewhere")
		       : 0;
}

/* Whether the file itself has secrets in it, and so must not even be seen. */
static bool has_values(const struct keeper_config *config)
{
	for (size_t i = 0; i < config->secret_count; i++)
		if (strncmp(config->secrets[i].source, "config:", 7) == 0)
			return true;
	return false;
}

/* They say what is done on the host, and who is trusted: not the agent's to write. */
static int check_input(const struct run_config *config, const char *what, const char *path,
		       bool only_writable, struct err *err)
{
	const char *exposed = path ? find_exposure(config, path, only_writable) : NULL;

	return exposed ? refuse(err, what, path, exposed,
				"keep it elsewhere, or name another --workspace")
		       : 0;
}

static int check_inputs(const struct run_config *config, struct err *err)
{
	struct run_config elsewhere = *config;
	int r;

	/* What is covered in the workspace can still be seen, or changed, by another way. */
	if (config->covers_config && exposure_find_name(config))
		elsewhere.workspace = "/proc/self/nowhere";
	r = check_input(&elsewhere, "the configuration", config->config,
			!has_values(&config->keeper), err);
	/* Whoever uses a draft takes it for what was asked for. */
	if (r == 0)
		r = check_input(config, "the draft", config->learn, true, err);
	return r < 0 ? r
		     : check_input(config, "the bundle of certificates", config->keeper.upstream_ca,
				   true, err);
}

const char *exposure_find_name(const struct run_config *config)
{
	const char *path = config->config, *slash = path ? strrchr(path, '/') : NULL;
	_cleanup_free_ char *dir = path && slash ? strndup(path, (size_t)(slash - path) + 1) : NULL;
	_cleanup_free_ char *real_dir = path ? realpath(dir ? dir : ".", NULL) : NULL;
	_cleanup_free_ char *top = realpath(config->workspace ? config->workspace : ".", NULL);
	struct stat st;

	if (!real_dir || !top || strcmp(real_dir, top) != 0 || lstat(path, &st) < 0 ||
	    !S_ISREG(st.st_mode) || st.st_nlink != 1)
		return NULL;
	return slash ? slash + 1 : path;
}

int exposure_check(const struct run_config *config, struct err *err)
{
	int r = check_inputs(config, err);

	if (r == 0)
		r = config->keeper_address ? check_shared(config, err) : check_audit(config, err);
	return r < 0 ? r : check_keys(config, err);
}
