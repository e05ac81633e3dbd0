/* SPDX-License-Identifier: MIT */
/*
 * `warder doctor`: what this host can enforce.
 *
 * Each check tries the thing instead of guessing from versions. The last one is a
 * whole default run, and it alone decides the exit status.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/err.h"
#include "base/json.h"
#include "cmd/cmd.h"
#include "sys/cgroup.h"
#include "sys/fd.h"
#include "sys/landlock.h"
#include "sys/probe.h"
#include "warder.h"

enum verdict {
	VERDICT_OK,
	VERDICT_MISSING,
};

struct finding {
	enum verdict verdict;
	char detail[WARDER_MESSAGE_MAX];
	const char *remedy; /* NULL when there is nothing to do */
};

struct check {
	const char *name;
	void (*run)(struct finding *finding);
	bool needs_userns; /* says nothing of its own where user namespaces are missing */
};

static void say(struct finding *finding, enum verdict verdict, const char *remedy, const char *fmt,
		...) __attribute__((format(printf, 4, 5)));

static void say(struct finding *finding, enum verdict verdict, const char *remedy, const char *fmt,
		...)
{
	va_list ap;

	finding->verdict = verdict;
	finding->remedy = remedy;
	va_start(ap, fmt);
	vsnprintf(finding->detail, sizeof(finding->detail), fmt, ap);
	va_end(ap);
}

/* The common case: it works, or this is why not and what to do. */
static void judge(struct finding *finding, int result, const char *works, const char *remedy)
{
	if (result == 0)
		say(finding, VERDICT_OK, NULL, "%s", works);
	else
		say(finding, VERDICT_MISSING, remedy, "%s", strerrordesc_np(-result));
}

/* The number in a sysctl, or -1 when the kernel has none of that name. */
static int sysctl_get(const char *path)
{
	char text[32];

	if (fd_read_file(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return -1;
	return (int)strtol(text, NULL, 10);
}

static void check_kernel(struct finding *finding)
{
	struct utsname name;
	int major = 0, minor = 0;

	if (uname(&name) < 0 || sscanf(name.release, "%d.%d", &major, &minor) != 2)
		say(finding, VERDICT_MISSING, NULL, "unknown version");
	else if (major < 5 || (major == 5 && minor < 14))
		say(finding, VERDICT_MISSING, "use Linux 5.14 or newer", "Linux %s", name.release);
	else
		say(finding, VERDICT_OK, NULL, "Linux %s", name.release);
}

/* Which of the known switches forbids user namespaces. */
static const char *find_userns_remedy(void)
{
	if (sysctl_get("/proc/sys/kernel/unprivileged_userns_clone") == 0)
		return "sysctl kernel.unprivileged_userns_clone=1";
	if (sysctl_get("/proc/sys/user/max_user_namespaces") == 0)
		return "sysctl user.max_user_namespaces=10000";
	if (sysctl_get("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1)
		return "AppArmor forbids them to programs without a profile (Ubuntu 23.10 and "
		       "later): "
		       "install contrib/apparmor/warder into /etc/apparmor.d and reload AppArmor";
	if (access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0)
		return "the container engine forbids them: start the container with "
		       "--security-opt seccomp=unconfined --security-opt apparmor=unconfined";
	return "allow user namespaces, or start warder as root";
}

static void check_userns(struct finding *finding)
{
	judge(finding, probe_user_namespace(), "an id of one's own can be mapped",
	      find_userns_remedy());
}

static void check_mounts(struct finding *finding)
{
	judge(finding, probe_mount_in_userns(), "mounts can be changed in a user namespace",
	      find_userns_remedy());
}

static void check_namespaces(struct finding *finding)
{
	judge(finding, probe_other_namespaces(), "pid, network, ipc, uts and cgroup",
	      "raise the limits in /proc/sys/user/max_*_namespaces");
}

static void check_container(struct finding *finding)
{
	const char *where = access("/.dockerenv", F_OK) == 0          ? "in Docker: "
			    : access("/run/.containerenv", F_OK) == 0 ? "in Podman: "
								      : "";
	int r = probe_proc();

	if (r == 0)
		say(finding, VERDICT_OK, NULL, "%sa new /proc can be mounted", where);
	else
		say(finding, VERDICT_MISSING,
		    "parts of /proc are masked: start the container with "
		    "--security-opt systempaths=unconfined",
		    "%sa new /proc cannot be mounted: %s", where, strerrordesc_np(-r));
}

static void check_seccomp(struct finding *finding)
{
	judge(finding, probe_seccomp(), "system calls can be filtered",
	      "use a kernel with CONFIG_SECCOMP_FILTER");
}

static void check_landlock(struct finding *finding)
{
	int abi = landlock_abi();

	if (abi >= LANDLOCK_ABI_MIN)
		say(finding, VERDICT_OK, NULL, "version %d", abi);
	else
		say(finding, VERDICT_MISSING,
		    "runs work without this second fence; to have it, use Linux 5.19 or newer with "
		    "landlock in the lsm= list of the kernel's command line",
		    "version %d", abi);
}

static void check_pidfd(struct finding *finding)
{
	judge(finding, probe_pidfd(), "processes can be held by descriptor",
	      "use Linux 5.14 or newer");
}

static int try_cgroup(const char *backend, struct err *err)
{
	static const struct cgroup_limits limits = {
		.memory_bytes = UINT64_C(64) << 20,
		.pids = 64,
		.cpu_milli = 1000,
	};
	static int count; /* systemd takes a moment to forget a name */
	struct cgroup group;
	char name[32];
	int r;

	snprintf(name, sizeof(name), "doctor.%d.%d", count++, (int)getpid());
	r = cgroup_open(&group, backend, name, &limits, err);
	cgroup_close(&group);
	return r;
}

static void check_cgroup(struct finding *finding, const char *backend, const char *remedy)
{
	struct err err = { 0 };

	if (try_cgroup(backend, &err) == 0)
		say(finding, VERDICT_OK, NULL, "memory, pids and cpu can be limited");
	else
		say(finding, VERDICT_MISSING,
		    try_cgroup("auto", NULL) == 0 ? "none needed, another backend works" : remedy,
		    "%s", err.text);
}

static void check_cgroup_v2(struct finding *finding)
{
	check_cgroup(finding, "v2",
		     "delegate a group with the memory, pids and cpu controllers to this user");
}

static void check_cgroup_systemd(struct finding *finding)
{
	check_cgroup(
		finding, "systemd",
		"log in through systemd (pam_systemd) and, for --cpu, delegate the controller: "
		"Delegate=cpu memory pids in user@.service");
}

static void check_cgroup_v1(struct finding *finding)
{
	check_cgroup(finding, "v1",
		     "as root, for each of memory, pids and cpu: "
		     "mkdir /sys/fs/cgroup/CONTROLLER/warder.UID and chown it to UID");
}

static void check_nat(struct finding *finding)
{
	judge(finding, probe_nat(), "connections can be redirected in a namespace",
	      "hosts are reached on the ports that rules name, and on no other; for all ports "
	      "load the modules nf_tables and nft_chain_nat (as root: modprobe nft_chain_nat)");
}

static void check_overlayfs(struct finding *finding)
{
	judge(finding, probe_overlayfs(), "can be mounted in a user namespace",
	      "load the module overlay, with Linux 5.11 or newer");
}

static void check_idmap(struct finding *finding)
{
	if (geteuid() != 0)
		say(finding, VERDICT_OK, NULL, "not needed: only root's runs map ids");
	else
		judge(finding, probe_idmap("."), "the current directory can be a workspace",
		      "use a workspace on ext4, xfs or btrfs (tmpfs: Linux 6.3), or start as a "
		      "user");
}

/* One default run in a new directory below `parent`; an empty message when it works. */
static int try_run(const char *parent, char *ret_message, size_t size)
{
	static const char *const argv[] = { "true", NULL };
	struct warder_spec spec = WARDER_SPEC_INIT;
	struct warder_result result;
	char dir[64];
	int duration_ms;

	snprintf(dir, sizeof(dir), "%s/warder-doctor-XXXXXX", parent);
	if (!mkdtemp(dir)) {
		snprintf(ret_message, size, "no directory in %s: %s", parent,
			 strerrordesc_np(errno));
		return -1;
	}
	spec.workspace = dir;
	spec.argv = argv;
	if (warder_run_once(&spec, &result) < 0 || !result.ok)
		snprintf(ret_message, size, "%s", result.message);
	duration_ms = result.ok ? (int)result.duration_ms : -1;
	warder_result_clear(&result);
	rmdir(dir);
	return duration_ms;
}

static void check_run(struct finding *finding)
{
	/* As root the workspace's file system matters, and /tmp may be an older tmpfs. */
	static const char *const parents[] = { "/tmp", "/var/tmp" };
	char message[WARDER_MESSAGE_MAX] = "";
	int duration_ms = -1;

	for (size_t i = 0; i < ARRAY_LEN(parents) && duration_ms < 0; i++)
		duration_ms = try_run(parents[i], message, sizeof(message));
	if (duration_ms >= 0)
		say(finding, VERDICT_OK, NULL, "'warder run -- true' works, in %d ms", duration_ms);
	else
		say(finding, VERDICT_MISSING, "see the lines above", "%s", message);
}

static const struct check checks[] = {
	{ "kernel", check_kernel, false },
	{ "user namespaces", check_userns, false },
	{ "mounts", check_mounts, true },
	{ "other namespaces", check_namespaces, true },
	{ "nesting", check_container, true },
	{ "seccomp", check_seccomp, false },
	{ "landlock", check_landlock, false },
	{ "pidfd", check_pidfd, false },
	{ "id-mapped mounts", check_idmap, true },
	{ "cgroup v2", check_cgroup_v2, false },
	{ "cgroup systemd", check_cgroup_systemd, false },
	{ "cgroup v1", check_cgroup_v1, false },
	{ "nftables NAT", check_nat, true },
	{ "overlayfs", check_overlayfs, true },
	{ "default run", check_run, false }, /* last: it decides */
};

static void print_line(const struct check *check, const struct finding *finding)
{
	printf("%-8s %-17s %s%s%s\n", finding->verdict == VERDICT_OK ? "ok" : "missing",
	       check->name, finding->detail, finding->remedy ? "; remedy: " : "",
	       finding->remedy ? finding->remedy : "");
}

static void add_object(struct json *json, const struct check *check, const struct finding *finding)
{
	json_open(json, NULL, '{');
	json_text(json, "name", check->name);
	json_text(json, "status", finding->verdict == VERDICT_OK ? "ok" : "missing");
	json_text(json, "detail", finding->detail);
	if (finding->remedy)
		json_text(json, "remedy", finding->remedy);
	json_close(json, '}');
}

/* Runs every check; whether the last one, the default run, works. */
static bool examine(struct json *json)
{
	bool has_userns = probe_user_namespace() == 0;
	struct finding finding = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
		fflush(stdout); /* the probes fork */
		if (checks[i].needs_userns && !has_userns)
			say(&finding, VERDICT_MISSING, NULL, "needs user namespaces, see above");
		else
			checks[i].run(&finding);
		if (json)
			add_object(json, &checks[i], &finding);
		else
			print_line(&checks[i], &finding);
	}
	return finding.verdict == VERDICT_OK;
}

static bool examine_as_json(void)
{
	struct buf text;
	struct json json = { .out = &text };
	bool works;

	buf_init(&text, (size_t)64 * 1024);
	json_open(&json, NULL, '{');
	json_open(&json, "checks", '[');
	works = examine(&json);
	json_close(&json, ']');
	json_bool(&json, "ok", works);
	json_close(&json, '}');
	puts(text.data);
	buf_fini(&text);
	return works;
}

int cmd_doctor(int argc, char **argv)
{
	const char *option = argc > 1 ? argv[1] : "";
	bool works;

	if (strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0) {
		printf("usage: warder doctor [--json]\n\n"
		       "Tells what this host can enforce, what is missing, and the remedy.\n"
		       "Exit status 0 when the default run works, else 1.\n");
		return 0;
	}
	if (argc > 2 || (*option && strcmp(option, "--json") != 0)) {
		struct err err;

		err_say(&err, EINVAL, "doctor takes only --json, not '%.60s'",
			argc > 2 ? argv[2] : option);
		fprintf(stderr, "warder: %s\n", err.text);
		return WARDER_EXIT_FAILED;
	}
	works = *option ? examine_as_json() : examine(NULL);
	if (fflush(stdout) < 0) {
		fprintf(stderr, "warder: write to standard output: %s\n", strerrordesc_np(errno));
		return WARDER_EXIT_FAILED;
	}
	return works ? 0 : 1;
}
