/* SPDX-License-Identifier: MIT */
/*
 * libwarder: run one command in a sandbox with no network, no secrets and hard
 * limits, and learn exactly what happened.
 *
 *	struct warder_spec spec = WARDER_SPEC_INIT;
 *	struct warder_result result;
 *
 *	spec.workspace = "/srv/job-1";
 *	spec.argv = (const char *const[]){ "make", "test", NULL };
 *	spec.limits.timeout_ms = 30000;
 *	if (warder_run_once(&spec, &result) < 0)
 *		fprintf(stderr, "%s\n", result.message);
 *	warder_result_clear(&result);
 *
 * The calling process may have threads. It must not reap children it does not
 * know (no wait for any pid while a run is under way in another thread).
 */
#ifndef WARDER_H
#define WARDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WARDER_RUN_ID_MAX  64
#define WARDER_MESSAGE_MAX 512

#define WARDER_CAPTURE_PORTS_MAX 64

/* Exit codes that are not the command's own. */
enum warder_exit {
	WARDER_EXIT_TIMEOUT = 124,    /* the deadline passed */
	WARDER_EXIT_FAILED = 125,     /* the sandbox could not be made; nothing was started */
	WARDER_EXIT_CANNOT_RUN = 126, /* the command exists but cannot be executed */
	WARDER_EXIT_NOT_FOUND = 127,  /* there is no such command */
	WARDER_EXIT_OOM = 137,        /* killed for memory */
};

enum warder_error {
	WARDER_ERROR_NONE,
	WARDER_ERROR_TIMEOUT,
	WARDER_ERROR_OOM_KILLED,
	WARDER_ERROR_OUTPUT_TRUNCATED,
	WARDER_ERROR_CONTAINER_FAILED, /* the sandbox or the command could not be started */
	WARDER_ERROR_INTERNAL,
};

enum warder_mount_mode {
	WARDER_MOUNT_RO,
	WARDER_MOUNT_RW,
	WARDER_MOUNT_TMPFS,
	WARDER_MOUNT_FILE,  /* a file of its own, read-only */
	WARDER_MOUNT_COVER, /* shows that file in the place of another; where none is: nothing */
};

struct warder_mount {
	enum warder_mount_mode mode;
	/* A path of the host; unused for tmpfs. The content of a file; for a cover, the
	 * destination of a file before it. */
	const char *source;
	const char *dest;    /* absolute; NULL: the same as source */
	uint64_t size_bytes; /* of a tmpfs, 0: the default; of the content of a file */
	/*
	 * Of a file whose content takes time to become known, or NULL: called for it when it is
	 * written, in the process that builds the sandbox, which is a copy of the caller's. If
	 * that has threads, nothing in here may allocate. `size_bytes` is the most it may be. 0 or
	 * -errno.
	 */
	int (*make)(void *owner, const char **ret_content, uint64_t *ret_size);
	void *owner;
};

/* 0 always means: no such limit, or the default where one is named. */
struct warder_limits {
	uint64_t timeout_ms;
	uint64_t grace_ms; /* between SIGTERM and SIGKILL; default 2 s */
	uint64_t memory_bytes;
	uint64_t pids;         /* processes and threads; default 1024 */
	uint64_t cpu_milli;    /* 1500 is one and a half processors */
	uint64_t files;        /* open files per process; default: the caller's */
	uint64_t tmpfs_bytes;  /* /tmp, /run, home and /dev/shm together; default 1 GiB */
	uint64_t output_bytes; /* stdout and stderr together; default 2 MiB when captured */
};

enum warder_stdio {
	WARDER_STDIO_CAPTURE, /* into the result; stdin is stdin_fd, or empty when that is -1 */
	WARDER_STDIO_PASS,    /* relayed to and from the caller's descriptors 0, 1 and 2 */
	WARDER_STDIO_TTY,     /* a new terminal, relayed to the caller's 0 and 1 */
};

struct warder_spec {
	const char *run_id; /* NULL: mint one */
	uint32_t attempt;
	const char *workspace; /* NULL: the current directory */
	const char *const *argv;
	const char *const *env; /* NAME=VALUE, added to the sandbox's own; may be NULL */
	const struct warder_mount *mounts;
	size_t mount_count;
	struct warder_limits limits;
	const char *cgroup; /* auto, v2, systemd, v1 or none; NULL: auto */
	enum warder_stdio stdio;
	int stdin_fd;
	int signal_fd; /* a signalfd whose signals are passed on to the command, or -1 */
	/*
	 * A gateway for the run, if it has one: a sequenced-packet socket to which the listening
	 * sockets on the sandbox's loopback are sent, the port they listen on, and one on which
	 * a packet that begins with '+' lets the command start, and any other is why not.
	 */
	int gate_fd, ready_fd; /* or -1 */
	uint16_t llm_port;     /* 0: none */
	bool captures; /* every connection to anywhere goes to the gateway, and so does every name
			*/
	/*
	 * How: nft redirects connections to any port; ports has listeners on those below, and
	 * whatever goes to another port is refused; auto, or NULL, is ports where the kernel
	 * cannot redirect.
	 */
	const char *capture;
	const uint16_t *capture_ports;
	size_t capture_port_count; /* more than WARDER_CAPTURE_PORTS_MAX need nft */
};

#define WARDER_SPEC_INIT                                                                           \
	{                                                                                          \
		.stdin_fd = -1, .signal_fd = -1, .gate_fd = -1, .ready_fd = -1                     \
	}

struct warder_result {
	char run_id[WARDER_RUN_ID_MAX + 1];
	uint32_t attempt;
	bool ok;       /* the command ran and returned 0 */
	int exit_code; /* 128 + n when signal n ended it; else see enum warder_exit */
	int signal;    /* the signal that ended the command, or 0 */
	enum warder_error error;
	char message[WARDER_MESSAGE_MAX]; /* what went wrong, in one line; empty when nothing did */
	char *out; /* NUL-terminated for convenience; never NULL after a call */
	size_t out_len;
	char *err;
	size_t err_len;
	bool output_truncated;
	uint64_t duration_ms;
	uint64_t memory_peak_bytes; /* 0: not measured */
	const char *cgroup;         /* the backend that held the limits */
};

/*
 * Runs the command and waits for it and everything it started to be gone.
 * Returns 0 when the command was executed, whatever it returned, and a negative
 * errno value when it was not; *result is filled in both cases and owns memory
 * until warder_result_clear.
 */
int warder_run_once(const struct warder_spec *spec, struct warder_result *result);
void warder_result_clear(struct warder_result *result);

/* "timeout", "oom_killed", ...; NULL for WARDER_ERROR_NONE. */
const char *warder_error_name(enum warder_error error);

/*
 * The result as one JSON object, to be freed by the caller. *ret_len may be NULL.
 */
char *warder_result_json(const struct warder_result *result, size_t *ret_len);

const char *warder_version(void);

#ifdef __cplusplus
}
#endif

#endif
