/* SPDX-License-Identifier: MIT */
/*
 * What a run will be, worked out before anything is started.
 *
 * plan_new turns a spec into a list of steps and plain values. Whatever can be wrong
 * with the request is found here, while nothing has happened yet. The process that
 * enters the sandbox then only follows the steps: it decides nothing and, because
 * the caller may have threads, allocates nothing.
 */
#ifndef SANDBOX_PLAN_H
#define SANDBOX_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/err.h"
#include "sys/userns.h"
#include "warder.h"

enum step_kind {
	STEP_DIR,     /* make a directory */
	STEP_FILE,    /* make a file with given content */
	STEP_SYMLINK, /* make a symbolic link */
	STEP_BIND,    /* show a path of the host */
	STEP_COVER,   /* show a file of the root in the place of another, if one is there */
	STEP_SCRATCH, /* make a directory of the root, which is read-only, writable */
	STEP_TMPFS,   /* mount an empty file system */
	STEP_PROC,    /* mount /proc */
	STEP_DEVPTS,  /* mount /dev/pts */
	STEP_MASK,    /* hide what is there, if it is there */
	STEP_FREEZE,  /* make what is there read-only, if it is there */
};

struct step {
	enum step_kind kind;
	const char *dest;                /* relative to the new root */
	const char *source;              /* host path, link target, content, or path in the root */
	mode_t mode;                     /* of what is made */
	uint64_t attributes;             /* MOUNT_ATTR_* of a bind */
	uint64_t size_bytes;             /* of a tmpfs, or the content of a file */
	const struct warder_mount *file; /* the caller's, who makes the content; or NULL */
	bool is_dir;                     /* what a bind shows */
	bool may_create;                 /* the mount point lies in a tree of ours */
	bool is_users;  /* the path was the caller's choice: verify it is still the same */
	bool keeps_ids; /* ... and it is shown with the owners it has */
	dev_t device;   /* ... by these */
	ino_t inode;
	int fd; /* the tree, once it is open; owned by the plan */
};

struct plan {
	struct arena arena;
	char run_id[WARDER_RUN_ID_MAX + 1];
	struct step *steps;
	size_t step_count;
	const char *const *argv;
	const char **shell_argv; /* the same after "/bin/sh" */
	const char *const *env;
	const char *const *writable; /* paths inside, for Landlock; ends with NULL */
	struct warder_limits limits; /* defaults filled in */
	struct userns_map map;
	bool is_privileged; /* started by root: ids are mapped by the supervisor */
	bool has_tty;
	int gate_fd, ready_fd; /* of the gateway, borrowed; -1: there is none */
	int signal_fd;         /* of the caller, or -1 */
	uint16_t llm_port;
	bool captures;
	bool may_redirect, must_redirect; /* ... by nftables, or by listeners on these ports */
	const uint16_t *ports;
	size_t port_count;
	const char *home;
};

/*
 * Works the plan out. On failure *err says what is wrong with the request and
 * nothing is left behind; on success plan_free is owed.
 */
int plan_new(const struct warder_spec *spec, struct plan **ret_plan, struct err *err) must_check;
void plan_free(struct plan *plan);

#endif
