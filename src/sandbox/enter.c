/* SPDX-License-Identifier: MIT */
/*
 * Enters the sandbox.
 *
 * The cloned process is alone in new user, mount, PID, network, IPC and UTS
 * namespaces, with every capability in them and none outside. Each stage takes
 * something away; the order of the table is the design. The first failure is sent to
 * the supervisor in words and ends the process; nothing of the agent has run by
 * then (INV-FAIL-CLOSED).
 */
#include "sandbox/enter.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "sandbox/init.h"
#include "sandbox/message.h"
#include "sandbox/root.h"
#include "sys/caps.h"
#include "sys/fd.h"
#include "sys/landlock.h"
#include "sys/mount.h"
#include "sys/netns.h"
#include "sys/nft.h"
#include "sys/pass.h"
#include "sys/pty.h"
#include "sys/rlimit.h"
#include "sys/route.h"
#include "sys/seccomp.h"
#include "syscalls_filter.h"

#define WORKSPACE "/workspace"
#define HOSTNAME  "warder"

/* ---- talking to the supervisor ---- */

static int wait_for(const struct entry *entry, enum message_type type, struct err *err)
{
	struct message message;
	int fd, r = message_receive(entry->control_fd, &message, &fd);

	close_fd(&fd);
	if (r < 0)
		return err_set(err, -r, "hear from the supervisor");
	if (message.type != type)
		return err_say(err, EPROTO, "unexpected message %u", message.type);
	return 0;
}

/* ---- stages ---- */

static int take_ids(struct entry *entry, struct err *err)
{
	const struct userns_map *map = &entry->plan->map;
	int r;

	if (!entry->plan->is_privileged) {
		r = userns_write_map(0, map, 1);
		return r < 0 ? err_set(err, -r, "map the user's own id") : 0;
	}
	r = wait_for(entry, MESSAGE_MAPPED, err);
	if (r < 0)
		return r;
	/*
	 * Root's groups go, and root's id with them; the capabilities in here stay for now.
	 * By system call: libc would tell the caller's other threads, which are not here.
	 */
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || syscall(SYS_setgroups, 0, NULL) < 0 ||
	    syscall(SYS_setresgid, map->inside_gid, map->inside_gid, map->inside_gid) < 0 ||
	    syscall(SYS_setresuid, map->inside_uid, map->inside_uid, map->inside_uid) < 0)
		return err_set(err, errno, "become the agent's user");
	return 0;
}

static int die_with_supervisor(struct entry *entry, struct err *err)
{
	struct pollfd control = { .fd = entry->control_fd };

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return err_set(err, errno, "ask to die with the supervisor");
	/* It may have died before it was asked: then nobody holds the other end. */
	if (poll(&control, 1, 0) < 0 || (control.revents & POLLHUP))
		return err_say(err, EPIPE, "the supervisor is gone");
	return 0;
}

/* Finds the argument and environment areas of this process in its stat line. */
static int find_areas(unsigned long *ret_areas)
{
	char text[1024];
	const char *p;

	if (fd_read_file(AT_FDCWD, "/proc/self/stat", text, sizeof(text)) < 0)
		return -EIO;
	/* The command's name may contain anything; the fields follow its last parenthesis. */
	p = strrchr(text, ')');
	for (int field = 2; p && field < 48; field++) {
		p = strchr(p + 1, ' ');
	}
	if (!p || sscanf(p, " %lu %lu %lu %lu", &ret_areas[0], &ret_areas[1], &ret_areas[2],
			 &ret_areas[3]) != 4)
		return -EPROTO;
	return 0;
}

static void wipe(unsigned long from, unsigned long to)
{
	if (from && to > from)
		explicit_bzero((void *)from, to - from); // NOLINT(performance-no-int-to-ptr)
}

/*
 * This process is a copy of the caller's, and what it keeps of it the agent must not
 * find: the caller's variables, and a command line that names paths of the host
 * (INV-SECRETS-HOST-ONLY). Not dumpable: the agent cannot trace it or read its
 * memory, and /proc/1/exe does not lead to our own file.
 */
static int forget_caller(struct entry *entry, struct err *err)
{
	unsigned long areas[4];

	(void)entry;
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_set(err, errno, "become undumpable");
	if (find_areas(areas) < 0)
		return err_say(err, EIO, "cannot find the caller's environment to wipe it");
	for (char **p = environ; p && *p; p++) {
		wipe((unsigned long)*p, (unsigned long)(*p + strlen(*p)));
		*p = NULL;
	}
	wipe(areas[0], areas[1]);
	wipe(areas[2], areas[3]);
	memcpy((void *)areas[0], "warder", // NOLINT(performance-no-int-to-ptr)
	       areas[1] - areas[0] > sizeof("warder") ? sizeof("warder") : 0);
	prctl(PR_SET_NAME, "warder-init", 0, 0, 0);
	return 0;
}

static int open_trees(struct entry *entry, struct err *err)
{
	int r = mount_make_private();

	if (r < 0)
		return err_set(err, -r, "cut off mount propagation");
	return root_open(entry->plan, err);
}

static int mount_root(struct entry *entry, struct err *err)
{
	return root_enter(entry->plan, err);
}

/* Ports of the sandbox that are the gate's; above those that the kernel gives out. */
#define CAPTURE_PORT 61001
#define DNS_PORT     61053
#define PROXY_PORT   3128
#define PORT_53      53

/*
 * Sockets of this namespace, which belong to the gate; the tag says what for. The second column
 * is for a kernel that cannot redirect: what is captured has its own port of every address then.
 */
static const struct gate_socket {
	char tag;
	struct {
		int (*open)(int family, uint16_t port); /* NULL: none */
		uint16_t port;                          /* 0: the LLM's */
	} redirected, by_port;
} gate_sockets[] = {
	{ 'L', { netns_listen, 0 }, { netns_listen_beside, 0 } },
	{ 'P', { netns_listen, PROXY_PORT }, { netns_listen_beside, PROXY_PORT } },
	{ 'T', { netns_listen, CAPTURE_PORT }, { NULL, 0 } },
	{ 'D', { netns_bind_udp, DNS_PORT }, { netns_bind_udp_port, PORT_53 } },
	{ 'd', { netns_listen, DNS_PORT }, { netns_listen_port, PORT_53 } },
};

/* One of each family. */
static int give_sockets(const struct plan *plan, char tag, int (*open)(int family, uint16_t port),
			uint16_t port, struct err *err)
{
	static const int families[] = { AF_INET, AF_INET6 };

	for (size_t i = 0; i < ARRAY_LEN(families); i++) {
		_cleanup_close_ int fd = open(families[i], port);
		int r;

		if (families[i] == AF_INET6 && (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL))
			continue; /* a kernel without IPv6 */
		if (fd < 0)
			return err_set(err, -fd, "listen on port %u of the sandbox", port);
		r = pass_send(plan->gate_fd, &tag, 1, fd);
		if (r < 0)
			return err_set(err, -r, "hand a socket over to the gate");
	}
	return 0;
}

static int open_gate_sockets(const struct plan *plan, bool is_redirected, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(gate_sockets); i++) {
		const struct gate_socket *row = &gate_sockets[i];
		uint16_t port = is_redirected ? row->redirected.port : row->by_port.port;
		int (*open)(int, uint16_t) = is_redirected ? row->redirected.open
							   : row->by_port.open;

		if (open && (row->tag == 'L' ? plan->llm_port != 0 : plan->captures))
			r = give_sockets(plan, row->tag, open, port ? port : plan->llm_port, err);
	}
	return r;
}

/* The ports that rules are about; on any other nobody listens, and a connection is refused. */
static int open_ports(const struct plan *plan, struct err *err)
{
	int r = 0;

	if (plan->port_count > WARDER_CAPTURE_PORTS_MAX)
		return err_say(err, E2BIG,
			       "the rules name more than %d ports, and without nftables each needs "
			       "a listener; 'warder doctor' tells how to have nftables",
			       WARDER_CAPTURE_PORTS_MAX);
	for (size_t i = 0; r == 0 && i < plan->port_count; i++)
		if (plan->ports[i] != PORT_53)
			r = give_sockets(plan, 'A', netns_listen_port, plan->ports[i], err);
	return r;
}

/* Every address is local, and every connection to one goes to the gate. */
static int capture(const struct plan *plan, bool *ret_is_redirected, struct err *err)
{
	static const struct nft_ports ports = { CAPTURE_PORT, DNS_PORT };
	bool has_v6;
	int r = netns_add_addresses();

	if (r < 0)
		return err_set(err, -r, "give the loopback interface its addresses");
	r = route_all_local(&has_v6);
	if (r < 0)
		return err_set(err, -r, "make every address a local one");
	*ret_is_redirected = plan->may_redirect;
	if (!plan->may_redirect)
		return 0;
	r = nft_redirect(&ports);
	if (nft_is_missing(r) && !plan->must_redirect) {
		*ret_is_redirected = false;
		return 0;
	}
	if (r < 0) {
		err_set(err, -r, "redirect connections to the gate");
		err_hint(err, "'warder doctor' tells whether the kernel has nftables");
	}
	return r;
}

/*
 * INV-NETWORK-DENY: a namespace with nothing in it but a loopback of its own. What leaves it
 * goes through the gate's listeners.
 */
static int set_up_network(struct entry *entry, struct err *err)
{
	bool is_redirected = true;
	int r = netns_loopback_up();

	if (r < 0)
		return err_set(err, -r, "bring up the loopback interface");
	if (entry->plan->captures)
		r = capture(entry->plan, &is_redirected, err);
	if (r == 0 && entry->plan->gate_fd >= 0)
		r = open_gate_sockets(entry->plan, is_redirected, err);
	if (r == 0 && entry->plan->gate_fd >= 0 && !is_redirected)
		r = open_ports(entry->plan, err);
	if (r < 0)
		return r;
	if (sethostname(HOSTNAME, strlen(HOSTNAME)) < 0)
		return err_set(err, errno, "set the host name");
	return 0;
}

/* A new terminal, on the sandbox's own devpts; the supervisor gets the other end. */
static int open_terminal(struct entry *entry, struct err *err)
{
	_cleanup_close_ int master_fd = -1;
	struct message message = { .type = MESSAGE_TTY };
	int slave_fd, r;

	if (!entry->plan->has_tty)
		return 0;
	master_fd = pty_open_master("/dev/pts/ptmx");
	if (master_fd < 0)
		return err_set(err, -master_fd, "open a terminal");
	slave_fd = pty_open_slave(master_fd);
	if (slave_fd < 0)
		return err_set(err, -slave_fd, "open the agent's end of the terminal");
	/* Here, so that it has the caller's size before anybody looks; later the supervisor
	 * follows. */
	pty_copy_size(STDIN_FILENO, master_fd);
	for (int i = 0; i < 3; i++)
		if (entry->std_fds[i] < 0)
			entry->std_fds[i] = slave_fd;
	r = message_send(entry->control_fd, &message, master_fd);
	return r < 0 ? err_set(err, -r, "hand over the terminal") : 0;
}

static int enter_cgroup(struct entry *entry, struct err *err)
{
	int r = wait_for(entry, MESSAGE_GO, err);

	if (r < 0)
		return r;
	r = cgroup_join(entry->cgroup);
	if (r < 0)
		return err_set(err, -r, "join the control group");
	/* Only now: the namespace's root is the group one is in when it is made. */
	if (unshare(CLONE_NEWCGROUP) < 0)
		return err_set(err, errno, "make a cgroup namespace");
	return 0;
}

static int set_limits(struct entry *entry, struct err *err)
{
	/* Counted per user namespace, and we are one of those counted. */
	int r = rlimit_lower(RLIMIT_NPROC, entry->plan->limits.pids + 1);

	if (r < 0)
		return err_set(err, -r, "limit the number of processes");
	/*
	 * No core dumps. The value 1 and not 0: it also stops a dump that the host's
	 * core_pattern would pipe to a program outside.
	 */
	r = rlimit_lower(RLIMIT_CORE, 1);
	return r < 0 ? err_set(err, -r, "forbid core dumps") : 0;
}

static int drop_privileges(struct entry *entry, struct err *err)
{
	int r = caps_drop_all();

	(void)entry;
	if (r < 0)
		return err_set(err, -r, "drop capabilities");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(err, errno, "set no_new_privs");
	return 0;
}

/* Whether this file can be executed: 0, -ENOENT when it is not there, or why not. */
static int try_command(const char *path)
{
	/*
	 * Not through a magic link of /proc: /proc/self/exe is, until the exec, our own
	 * file on the host.
	 */
	struct {
		uint64_t flags, mode, resolve;
	} how = { .flags = O_PATH | O_CLOEXEC, .resolve = 0x02 /* RESOLVE_NO_MAGICLINKS */ };
	_cleanup_close_ int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	struct stat st;

	if (fd < 0)
		return errno == ENOTDIR ? -ENOENT : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode) || faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0)
		return -EACCES;
	return 0;
}

static const char *get_variable(const struct plan *plan, const char *name)
{
	size_t len = strlen(name);

	for (const char *const *p = plan->env; *p; p++)
		if (strncmp(*p, name, len) == 0 && (*p)[len] == '=')
			return *p + len + 1;
	return "";
}

/* Looks a plain name up in the sandbox's PATH. */
static int search_path(struct entry *entry, const char *name)
{
	const char *dir = get_variable(entry->plan, "PATH");
	int found = -ENOENT;

	for (;;) {
		size_t len = strcspn(dir, ":");
		int r;

		snprintf(entry->command, sizeof(entry->command), "%.*s%s%s", (int)len, dir,
			 len ? "/" : "", name);
		r = try_command(entry->command);
		if (r == 0)
			return 0;
		if (r == -EACCES)
			found = r; /* there, but unusable: say so unless a better one follows */
		if (!dir[len])
			return found;
		dir += len + 1;
	}
}

static int find_command(struct entry *entry, struct err *err)
{
	const char *name = entry->plan->argv[0];
	int r;

	if (chdir(WORKSPACE) < 0)
		return err_set(err, errno, "enter " WORKSPACE);
	if (strchr(name, '/')) {
		snprintf(entry->command, sizeof(entry->command), "%s", name);
		r = strlen(name) < sizeof(entry->command) ? try_command(name) : -ENAMETOOLONG;
	} else {
		r = search_path(entry, name);
	}
	if (r == 0)
		return 0;
	entry->exit_status = r == -ENOENT ? WARDER_EXIT_NOT_FOUND : WARDER_EXIT_CANNOT_RUN;
	err_set(err, -r, "run '%.200s'", name);
	if (r == -ENOENT && !strchr(name, '/'))
		err_hint(err, "it is not on the PATH inside the sandbox; what is not below /usr, "
			      "/opt or the workspace must be shown with --ro");
	return r;
}

static int restrict_files(struct entry *entry, struct err *err)
{
	int abi = landlock_abi(), r;

	if (abi < LANDLOCK_ABI_MIN)
		return 0; /* a second fence, where the kernel has it; doctor tells */
	r = landlock_restrict(abi, "/", entry->plan->writable);
	return r < 0 ? err_set(err, -r, "restrict the files with Landlock") : 0;
}

static int load_filter(struct entry *entry, struct err *err)
{
	int r = seccomp_load(filter_allow, ARRAY_LEN(filter_allow));

	(void)entry;
	if (r == 0)
		r = seccomp_load(filter_refuse, ARRAY_LEN(filter_refuse));
	return r < 0 ? err_set(err, -r, "load the system call filter") : 0;
}

struct stage {
	const char *name;
	int (*run)(struct entry *entry, struct err *err);
};

static const struct stage stages[] = {
	{ "take the agent's ids", take_ids },
	/* After the ids: a change of ids forgets the request. */
	{ "die with the supervisor", die_with_supervisor },
	/* After the ids: an undumpable process cannot write its own map. */
	{ "forget the caller", forget_caller },
	/* While the host's files still have names. */
	{ "open the trees", open_trees },
	{ "mount the new root", mount_root },
	{ "set up the network", set_up_network },
	/* On the devpts of the new root. */
	{ "open the terminal", open_terminal },
	/* As late as can be: systemd may attach us while we mount. */
	{ "enter the control group", enter_cgroup },
	{ "set the limits", set_limits },
	/* The last stage that needed a capability is behind us. */
	{ "drop privileges", drop_privileges },
	/* With the agent's own rights, and while openat2 may still be called. */
	{ "find the command", find_command },
	{ "restrict the files", restrict_files }, /* needs no_new_privs */
	{ "load the filter", load_filter },       /* last: forbids most of the above */
};

void enter_sandbox(struct entry *entry)
{
	struct message message = { .type = MESSAGE_FAILED };

	entry->umask = umask(0);
	entry->exit_status = WARDER_EXIT_FAILED;
	for (size_t i = 0; i < ARRAY_LEN(stages); i++)
		if (stages[i].run(entry, &message.err) < 0) {
			message.value = entry->exit_status;
			message_send(entry->control_fd, &message, -1);
			_exit(entry->exit_status);
		}
	init_run(entry);
}
