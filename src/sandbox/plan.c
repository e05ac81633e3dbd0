/* SPDX-License-Identifier: MIT */
/*
 * Works out a run.
 *
 * The root is one small file system in memory. System directories of the host are
 * bound into it read-only; a handful of its own directories (/tmp, /run, home,
 * /dev/shm) are made writable again; then come the caller's mounts, in their order.
 * A path of the host is named only here; whether it is the same when it is opened
 * later is checked by device and inode.
 */
#include "sandbox/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/runid.h"
#include "sandbox/paths.h"
#include "sandbox/steps.h"

#define MOUNTS_MAX 256 /* the caller's; the rest of the steps is for the system's */
#define ENV_MAX    1100

#define DEFAULT_GRACE_MS    2000
#define DEFAULT_PIDS        1024
#define DEFAULT_TMPFS_BYTES (UINT64_C(1) << 30)
#define DEFAULT_MOUNT_BYTES (UINT64_C(64) << 20)
#define DEFAULT_OUTPUT      (UINT64_C(2) << 20)
#define DEFAULT_PATH        "/usr/local/bin:/usr/bin:/bin"
#define DEFAULT_HOME        "/home/agent"

#define AGENT_ID 1000 /* what the agent is inside when root started it */

/* ---- the caller's part ---- */

/* Opens a path of the caller, and tells what it is and its name without links. */
static int resolve(struct plan *plan, const char *what, const char *path, struct stat *ret_st,
		   const char **ret_real, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
	char link[64], real[4096];
	ssize_t len;

	if (fd < 0)
		return err_set(err, errno, "%s '%.200s'", what, path);
	if (fstat(fd, ret_st) < 0)
		return err_set(err, errno, "%s '%.200s'", what, path);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, real, sizeof(real) - 1);
	if (len < 0)
		return err_set(err, errno, "find the real name of '%.200s'", path);
	real[len] = '\0';
	*ret_real = arena_strdup(&plan->arena, real);
	return 0;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* A tree that holds the home directory must not become writable as a whole. */
static int check_not_home(const char *what, const char *real, const struct stat *st,
			  struct err *err)
{
	const char *home = getenv("HOME");
	char home_real[4096];
	struct stat root_st, home_st;

	if (stat("/", &root_st) == 0 && same_file(&root_st, st))
		return err_say(err, EINVAL, "%s is /, the whole system; choose a directory in it",
			       what);
	if (!home || stat(home, &home_st) < 0 || !realpath(home, home_real))
		return 0;
	if (same_file(&home_st, st))
		return err_say(err, EINVAL,
			       "%s is the home directory itself, with all that is in it; "
			       "choose a project directory, as in --workspace DIR",
			       what);
	if (path_is_within(home_real, real))
		return err_say(err, EINVAL,
			       "%s '%.200s' contains the home directory %.200s; "
			       "choose a directory below it",
			       what, real, home_real);
	return 0;
}

/* Looks for the mount that a destination would land in; ours may be written to. */
static bool lands_in_ours(const struct plan *plan, const char *dest)
{
	const struct step *best = NULL;
	size_t best_len = 0;

	for (size_t i = 0; i < plan->step_count; i++) {
		const struct step *step = &plan->steps[i];
		size_t len = strlen(step->dest);

		if (step->kind != STEP_BIND && step->kind != STEP_TMPFS &&
		    step->kind != STEP_SCRATCH)
			continue;
		if (path_is_within(dest, step->dest) && len >= best_len) {
			best = step;
			best_len = len;
		}
	}
	return !best || best->kind != STEP_BIND;
}

static int check_dest(const char *dest, struct err *err)
{
	static const char *const forbidden[] = { "/proc", "/dev", "/sys" };

	if (*dest != '/')
		return err_say(err, EINVAL,
			       "destination '%.200s' is relative; write an absolute path", dest);
	if (!path_is_clean(dest))
		return err_say(err, EINVAL,
			       "destination '%.200s' must be a plain path below /, without "
			       "'.', '..' or double slashes",
			       dest);
	for (size_t i = 0; i < ARRAY_LEN(forbidden); i++)
		if (path_is_within(dest, forbidden[i]))
			return err_say(err, EINVAL,
				       "destination '%.200s' lies in %s, which is the "
				       "sandbox's own",
				       dest, forbidden[i]);
	return 0;
}

static int add_bind(struct plan *plan, const char *what, const char *source, const char *dest,
		    bool is_writable, struct err *err)
{
	struct step *step;
	const char *real = NULL;
	struct stat st = { 0 };
	int r;

	r = resolve(plan, what, source, &st, &real, err);
	if (r == 0 && !S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		r = err_say(err, EINVAL, "%s '%.200s' is neither a file nor a directory", what,
			    source);
	if (r == 0 && is_writable)
		r = check_not_home(what, real, &st, err);
	if (r == 0)
		r = check_dest(dest, err);
	if (r < 0)
		return r;
	step = plan_add_step(plan, STEP_BIND, arena_strdup(&plan->arena, dest + 1));
	step->source = real;
	step->attributes = is_writable ? ATTR_SAFE : ATTR_RO;
	step->is_dir = S_ISDIR(st.st_mode);
	step->is_users = true;
	step->device = st.st_dev;
	step->inode = st.st_ino;
	return 0;
}

/* A path without the slashes at its end. */
static const char *without_slash(struct plan *plan, const char *path)
{
	size_t len = strlen(path);

	while (len > 1 && path[len - 1] == '/')
		len--;
	return arena_printf(&plan->arena, "%.*s", (int)len, path);
}

/* Content of the caller's, which is borrowed until it is written. */
static int add_content(struct plan *plan, const struct warder_mount *mount, struct err *err)
{
	struct step *step;

	if (!lands_in_ours(plan, mount->dest + 1))
		return err_say(err, EINVAL,
			       "a file at '%.200s' would lie in a tree of the host, and nothing is "
			       "created there; cover a file that is there instead",
			       mount->dest);
	step = plan_add_step(plan, STEP_FILE, arena_strdup(&plan->arena, mount->dest + 1));
	step->source = mount->source;
	step->size_bytes = mount->size_bytes;
	step->file = mount->make ? mount : NULL;
	step->mode = 0444;
	return 0;
}

static int add_cover(struct plan *plan, const struct warder_mount *mount, struct err *err)
{
	struct step *step;

	for (size_t i = 0; i < plan->step_count; i++)
		if (plan->steps[i].kind == STEP_FILE && mount->source[0] == '/' &&
		    strcmp(plan->steps[i].dest, mount->source + 1) == 0) {
			step = plan_add_step(plan, STEP_COVER,
					     arena_strdup(&plan->arena, mount->dest + 1));
			step->source = plan->steps[i].dest;
			step->attributes = ATTR_RO | MOUNT_ATTR_NOEXEC;
			return 0;
		}
	return err_say(err, EINVAL,
		       "'%.200s' is to be covered by '%.200s', which is no file before it",
		       mount->dest, mount->source);
}

static int add_mount(struct plan *plan, const struct warder_mount *mount, struct err *err)
{
	const char *dest = mount->dest;
	bool is_ours;
	int r;

	if (!dest && !mount->source)
		return err_say(err, EINVAL, "a mount has neither source nor destination");
	if (!dest)
		dest = without_slash(plan, mount->source);
	r = check_dest(dest, err);
	if (r < 0 && mount->mode == WARDER_MOUNT_COVER)
		return 0; /* no place in here */
	if (r < 0)
		return r;
	if (mount->mode == WARDER_MOUNT_FILE || mount->mode == WARDER_MOUNT_COVER) {
		bool is_made = mount->mode == WARDER_MOUNT_FILE && mount->make;

		if ((!mount->source && !is_made) || !mount->dest)
			return err_say(err, EINVAL, "the file at '%.200s' has no content", dest);
		return mount->mode == WARDER_MOUNT_FILE ? add_content(plan, mount, err)
							: add_cover(plan, mount, err);
	}
	is_ours = lands_in_ours(plan, dest + 1);
	if (mount->mode == WARDER_MOUNT_TMPFS) {
		struct step *step = plan_add_step(plan, STEP_TMPFS,
						  arena_strdup(&plan->arena, dest + 1));

		step->size_bytes = mount->size_bytes ? mount->size_bytes : DEFAULT_MOUNT_BYTES;
		step->is_dir = true;
	} else {
		if (!mount->source)
			return err_say(err, EINVAL, "the mount at '%.200s' has no source", dest);
		r = add_bind(plan, mount->mode == WARDER_MOUNT_RW ? "--rw" : "--ro", mount->source,
			     dest, mount->mode == WARDER_MOUNT_RW, err);
		if (r < 0)
			return r;
	}
	plan->steps[plan->step_count - 1].may_create = is_ours;
	return 0;
}

static int add_workspace(struct plan *plan, const char *path, struct err *err)
{
	int r = add_bind(plan, "workspace", path ? path : ".", "/workspace", true, err);

	if (r == 0 && !plan->steps[plan->step_count - 1].is_dir)
		return err_say(err, ENOTDIR, "workspace '%.200s' is not a directory", path);
	return r;
}

/* ---- programs below the home directory ---- */

static bool is_planned(const struct plan *plan, const char *dest)
{
	for (size_t i = 0; i < plan->step_count; i++)
		if (plan->steps[i].kind == STEP_BIND && path_is_within(dest, plan->steps[i].dest) &&
		    plan->steps[i].is_users)
			return true;
	return false;
}

/* Shows a path below the home directory at its own place, if it is there at all. */
static void add_below_home(struct plan *plan, const char *path)
{
	struct err ignored;

	if (!path_is_clean(path) || is_planned(plan, path + 1) || access(path, F_OK) < 0)
		return;
	if (plan->step_count >= STEPS_MAX - MOUNTS_MAX - 1)
		return; /* a PATH of that length finds its programs without the rest */
	if (add_bind(plan, "PATH", path, path, false, &ignored) == 0)
		plan->steps[plan->step_count - 1].keeps_ids = true;
}

static void add_tools(struct plan *plan, const char *front)
{
	static const struct {
		const char *front, *needs;
	} tools[] = {
#define TOOL(front, needs) { front, needs },
#include "sandbox/tools.def"
#undef TOOL
	};

	for (size_t i = 0; i < ARRAY_LEN(tools); i++)
		if (path_is_within(front, tools[i].front))
			add_below_home(plan, arena_printf(&plan->arena, "%s/%s", plan->home,
							  tools[i].needs));
}

static void add_path_dirs(struct plan *plan, const char *path)
{
	char *list = arena_strdup(&plan->arena, path), *dir;
	size_t home_len = strlen(plan->home);

	while ((dir = strsep(&list, ":"))) {
		if (!path_is_clean(dir) || !path_is_within(dir, plan->home) || !dir[home_len])
			continue;
		add_tools(plan, dir + home_len + 1);
		add_below_home(plan, dir);
	}
}

/* ---- environment ---- */

static bool is_passed_on(const char *variable)
{
	static const char *const names[] = { "TERM=", "LANG=", "LC_", "TZ=" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strncmp(variable, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

/* Sets NAME=VALUE, in place of an earlier NAME. */
static int env_set(const char **env, size_t *count, const char *variable, struct err *err)
{
	size_t name_len = strcspn(variable, "=") + 1;

	for (size_t i = 0; i < *count; i++)
		if (strncmp(env[i], variable, name_len) == 0) {
			env[i] = variable;
			return 0;
		}
	if (*count == ENV_MAX)
		return err_say(err, E2BIG, "more than %d variables", ENV_MAX);
	env[(*count)++] = variable;
	return 0;
}

static int plan_env(struct plan *plan, const struct warder_spec *spec, const char *path,
		    struct err *err)
{
	const char **env = arena_alloc(&plan->arena, (ENV_MAX + 1) * sizeof(*env));
	size_t count = 0;
	int r;

	r = env_set(env, &count, arena_printf(&plan->arena, "PATH=%s", path), err);
	if (r == 0)
		r = env_set(env, &count, arena_printf(&plan->arena, "HOME=%s", plan->home), err);
	for (char **p = environ; r == 0 && *p; p++)
		if (is_passed_on(*p))
			r = env_set(env, &count, arena_strdup(&plan->arena, *p), err);
	for (const char *const *p = spec->env; r == 0 && p && *p; p++) {
		if (!strchr(*p, '='))
			return err_say(err, EINVAL, "'%.40s' is not of the form NAME=VALUE", *p);
		r = env_set(env, &count, arena_strdup(&plan->arena, *p), err);
	}
	/* Last, so that nothing above can have set it (INV-RUN-IDENTITY). */
	if (r == 0)
		r = env_set(env, &count, arena_printf(&plan->arena, "RUN_ID=%s", plan->run_id),
			    err);
	plan->env = env;
	return r;
}

/* ---- the rest ---- */

static int plan_run_id(struct plan *plan, const char *given, struct err *err)
{
	int r;

	if (given) {
		if (!runid_is_valid(given))
			return err_say(err, EINVAL, "run id '%.80s' is not valid", given);
		memcpy(plan->run_id, given, strlen(given) + 1);
		return 0;
	}
	r = runid_new(plan->run_id);
	return r < 0 ? err_set(err, -r, "get random bytes") : 0;
}

static int plan_ids(struct plan *plan, struct err *err)
{
	uint32_t seed;

	plan->is_privileged = geteuid() == 0;
	if (!plan->is_privileged) {
		plan->map = (struct userns_map){ geteuid(), geteuid(), getegid(), getegid() };
		return 0;
	}
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return err_set(err, errno, "get random bytes");
	plan->map = (struct userns_map){
		.inside_uid = AGENT_ID,
		.outside_uid = userns_spare_id("/proc/self/uid_map", seed),
		.inside_gid = AGENT_ID,
		.outside_gid = userns_spare_id("/proc/self/gid_map", seed),
	};
	if (plan->map.outside_uid == 0 || plan->map.outside_gid == 0)
		return err_say(err, EPERM,
			       "started as root of a user namespace that has no id to "
			       "spare for the agent; map more ids, or start as an ordinary user");
	return 0;
}

static void plan_limits(struct plan *plan, const struct warder_spec *spec)
{
	struct warder_limits *limits = &plan->limits;

	*limits = spec->limits;
	if (!limits->grace_ms)
		limits->grace_ms = DEFAULT_GRACE_MS;
	if (!limits->pids)
		limits->pids = DEFAULT_PIDS;
	if (!limits->tmpfs_bytes)
		limits->tmpfs_bytes = DEFAULT_TMPFS_BYTES;
	if (!limits->output_bytes && spec->stdio == WARDER_STDIO_CAPTURE)
		limits->output_bytes = DEFAULT_OUTPUT;
}

/* The caller's home directory keeps its path, so that the paths on PATH stay true. */
static void plan_home(struct plan *plan)
{
	static const char *const taken[] = {
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
		"/opt", "/etc", "/proc", "/dev", "/sys",   "/var",   "/workspace",
	};
	const char *home = getenv("HOME");

	plan->home = home && path_is_clean(home) ? home : DEFAULT_HOME;
	for (size_t i = 0; i < ARRAY_LEN(taken); i++)
		if (path_is_within(plan->home, taken[i]))
			plan->home = DEFAULT_HOME;
	plan->home = arena_strdup(&plan->arena, plan->home);
}

static int plan_argv(struct plan *plan, const char *const *argv, struct err *err)
{
	const char **copy;
	size_t count = 0;

	if (!argv || !argv[0] || !*argv[0])
		return err_say(err, EINVAL, "no command");
	while (argv[count])
		count++;
	/* One slot in front: a script without an interpreter line is given to the shell. */
	copy = arena_alloc(&plan->arena, (count + 2) * sizeof(*copy));
	for (size_t i = 0; i < count; i++)
		copy[i + 1] = arena_strdup(&plan->arena, argv[i]);
	copy[0] = "/bin/sh";
	plan->shell_argv = copy;
	plan->argv = copy + 1;
	return 0;
}

/* Everything that is mounted writable, for the second fence. */
static void plan_writable(struct plan *plan)
{
	const char **paths = arena_alloc(&plan->arena, (STEPS_MAX + 3) * sizeof(*paths));
	size_t count = 0;

	paths[count++] = "/dev";
	paths[count++] = "/proc";
	for (size_t i = 0; i < plan->step_count; i++) {
		const struct step *step = &plan->steps[i];
		bool is_bind = step->kind == STEP_BIND && step->is_users &&
			       !(step->attributes & MOUNT_ATTR_RDONLY);

		if (is_bind || step->kind == STEP_SCRATCH || step->kind == STEP_TMPFS)
			paths[count++] = arena_printf(&plan->arena, "/%s", step->dest);
	}
	plan->writable = paths;
}

static int plan_capture(struct plan *plan, const struct warder_spec *spec, struct err *err)
{
	const char *how = spec->capture ? spec->capture : "auto";
	size_t size = spec->capture_port_count * sizeof(*plan->ports);
	uint16_t *ports;

	plan->captures = spec->captures;
	plan->must_redirect = strcmp(how, "nft") == 0;
	plan->may_redirect = plan->must_redirect || strcmp(how, "auto") == 0;
	if (!plan->may_redirect && strcmp(how, "ports") != 0)
		return err_say(err, EINVAL, "capture '%.40s' is not auto, nft or ports", how);
	if (size == 0)
		return 0;
	ports = arena_alloc(&plan->arena, size);
	memcpy(ports, spec->capture_ports, size);
	plan->ports = ports;
	plan->port_count = spec->capture_port_count;
	return 0;
}

static int plan_fill(struct plan *plan, const struct warder_spec *spec, struct err *err)
{
	const char *path = getenv("PATH");
	int r;

	if (!path || !*path)
		path = DEFAULT_PATH;
	plan->has_tty = spec->stdio == WARDER_STDIO_TTY;
	plan->gate_fd = spec->gate_fd;
	plan->ready_fd = spec->ready_fd;
	plan->signal_fd = spec->signal_fd;
	plan->llm_port = spec->llm_port;
	r = plan_capture(plan, spec, err);
	if (r == 0)
		r = plan_argv(plan, spec->argv, err);
	if (r == 0)
		r = plan_run_id(plan, spec->run_id, err);
	if (r == 0)
		r = plan_ids(plan, err);
	if (r == 0 && spec->mount_count > MOUNTS_MAX)
		r = err_say(err, E2BIG, "more than %d mounts", MOUNTS_MAX);
	if (r < 0)
		return r;
	plan_limits(plan, spec);
	plan_home(plan);

	plan_add_system(plan);
	plan_add_scratch(plan, plan->home + 1, 0700);
	add_path_dirs(plan, path);
	r = add_workspace(plan, spec->workspace, err);
	for (size_t i = 0; r == 0 && i < spec->mount_count; i++)
		r = add_mount(plan, &spec->mounts[i], err);
	if (r < 0)
		return r;
	plan_writable(plan);
	return plan_env(plan, spec, path, err);
}

int plan_new(const struct warder_spec *spec, struct plan **ret_plan, struct err *err)
{
	struct arena arena = { NULL };
	struct plan *plan = arena_alloc(&arena, sizeof(*plan));
	int r;

	plan->arena = arena;
	plan->steps = arena_alloc(&plan->arena, STEPS_MAX * sizeof(*plan->steps));
	r = plan_fill(plan, spec, err);
	if (r < 0) {
		plan_free(plan);
		return r;
	}
	*ret_plan = plan;
	return 0;
}

void plan_free(struct plan *plan)
{
	struct arena arena = plan->arena;

	for (size_t i = 0; i < plan->step_count; i++)
		close_fd(&plan->steps[i].fd);
	arena_fini(&arena); /* the plan itself is in there */
}
