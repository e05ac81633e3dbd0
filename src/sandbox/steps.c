/* SPDX-License-Identifier: MIT */
/* The steps that every run has: the system's files, /etc, /dev and /proc. */
#include "sandbox/steps.h"
#include "sys/netns.h"

#include <assert.h>
#include <dirent.h>
#include <string.h>

#define ETC_MATCHES_MAX 16

struct step *plan_add_step(struct plan *plan, enum step_kind kind, const char *dest)
{
	struct step *step = &plan->steps[plan->step_count++];

	assert(plan->step_count <= STEPS_MAX);
	*step = (struct step){ .kind = kind, .dest = dest, .fd = -1, .may_create = true };
	return step;
}

static void add_dir(struct plan *plan, const char *dest, mode_t mode)
{
	plan_add_step(plan, STEP_DIR, dest)->mode = mode;
}

static void add_file(struct plan *plan, const char *dest, const char *text)
{
	struct step *step = plan_add_step(plan, STEP_FILE, dest);

	step->source = text;
	step->size_bytes = strlen(text);
	step->mode = 0444;
}

static void add_symlink(struct plan *plan, const char *dest, const char *target)
{
	plan_add_step(plan, STEP_SYMLINK, dest)->source = target;
}

void plan_add_scratch(struct plan *plan, const char *dest, mode_t mode)
{
	plan_add_step(plan, STEP_SCRATCH, dest)->mode = mode;
}

/* Shows a path of the system where it is; a link stays a link; what is absent is left out. */
static void add_system(struct plan *plan, const char *path, uint64_t attributes)
{
	char target[4096];
	struct step *step;
	struct stat st;
	ssize_t len;

	if (lstat(path, &st) < 0)
		return;
	if (S_ISLNK(st.st_mode)) {
		len = readlink(path, target, sizeof(target) - 1);
		if (len < 0)
			return;
		target[len] = '\0';
		add_symlink(plan, path + 1, arena_strdup(&plan->arena, target));
		return;
	}
	step = plan_add_step(plan, STEP_BIND, path + 1);
	step->source = path;
	step->attributes = attributes;
	step->is_dir = S_ISDIR(st.st_mode);
}

static void add_etc_matches(struct plan *plan, const char *prefix)
{
	DIR *dir = opendir("/etc");
	struct dirent *entry;

	if (!dir)
		return;
	for (int found = 0; found < ETC_MATCHES_MAX && (entry = readdir(dir));)
		if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0) {
			add_system(plan, arena_printf(&plan->arena, "/etc/%s", entry->d_name),
				   ATTR_RO);
			found++;
		}
	closedir(dir);
}

static void add_etc(struct plan *plan)
{
	static const char *const names[] = {
#define ETC(name) name,
#include "sandbox/etc.def"
#undef ETC
	};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		size_t len = strlen(names[i]);

		if (names[i][len - 1] == '*')
			add_etc_matches(plan,
					arena_printf(&plan->arena, "%.*s", (int)len - 1, names[i]));
		else
			add_system(plan, arena_printf(&plan->arena, "/etc/%s", names[i]), ATTR_RO);
	}
	/* Names of the sandbox, not of the host: no account, address or resolver leaks in. */
	add_file(plan, "etc/passwd",
		 arena_printf(&plan->arena,
			      "root:x:0:0:root:/:/usr/sbin/nologin\n"
			      "agent:x:%u:%u:agent:%s:/bin/sh\n"
			      "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
			      plan->map.inside_uid, plan->map.inside_gid, plan->home));
	add_file(plan, "etc/group",
		 arena_printf(&plan->arena, "root:x:0:\nagent:x:%u:\nnogroup:x:65534:\n",
			      plan->map.inside_gid));
	add_file(plan, "etc/hosts", "127.0.0.1 localhost warder\n::1 localhost\n");
	add_file(plan, "etc/hostname", "warder\n");
	add_file(plan, "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n");
	add_file(plan, "etc/resolv.conf", plan->captures ? "nameserver " NETNS_RESOLVER "\n" : "");
}

static void add_dev(struct plan *plan)
{
	static const char *const devices[] = {
		"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty",
	};

	add_dir(plan, "dev", 0755);
	for (size_t i = 0; i < ARRAY_LEN(devices); i++)
		add_system(plan, devices[i],
			   MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY);
	plan_add_step(plan, STEP_DEVPTS, "dev/pts");
	add_symlink(plan, "dev/ptmx", "pts/ptmx");
	add_symlink(plan, "dev/fd", "/proc/self/fd");
	add_symlink(plan, "dev/stdin", "/proc/self/fd/0");
	add_symlink(plan, "dev/stdout", "/proc/self/fd/1");
	add_symlink(plan, "dev/stderr", "/proc/self/fd/2");
	plan_add_scratch(plan, "dev/shm", 01777);
}

static void add_proc(struct plan *plan)
{
	/* What tells about the machine or its keys, and what could act on it. */
	static const char *const masked[] = {
		"proc/acpi",          "proc/asound",        "proc/kcore",       "proc/key-users",
		"proc/keys",          "proc/kmsg",          "proc/kpagecgroup", "proc/kpagecount",
		"proc/kpageflags",    "proc/latency_stats", "proc/sched_debug", "proc/scsi",
		"proc/sysrq-trigger", "proc/timer_list",    "proc/timer_stats", "proc/vmcore",
	};
	static const char *const frozen[] = { "proc/bus", "proc/fs", "proc/irq", "proc/sys" };

	plan_add_step(plan, STEP_PROC, "proc");
	for (size_t i = 0; i < ARRAY_LEN(masked); i++)
		plan_add_step(plan, STEP_MASK, masked[i]);
	for (size_t i = 0; i < ARRAY_LEN(frozen); i++)
		plan_add_step(plan, STEP_FREEZE, frozen[i]);
}

static void add_system_dirs(struct plan *plan)
{
	static const char *const dirs[] = {
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt",
	};

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		add_system(plan, dirs[i], ATTR_RO);
	plan_add_scratch(plan, "tmp", 01777);
	plan_add_scratch(plan, "run", 0755);
	add_dir(plan, "var", 0755);
	add_symlink(plan, "var/tmp", "/tmp");
	add_symlink(plan, "var/run", "/run");
}

void plan_add_system(struct plan *plan)
{
	add_system_dirs(plan);
	add_etc(plan);
	add_dev(plan);
	add_proc(plan);
}
