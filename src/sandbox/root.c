/* SPDX-License-Identifier: MIT */
/*
 * Builds the root file system of a run.
 *
 * Every tree of the host is first opened as a detached copy with its attributes set:
 * read-only, no devices, no set-user-id. Only then is the new root attached and the
 * trees put into it, so that at no time a writable copy is in reach, and so that it
 * does not matter what of the host's tree the new root covers. A mount point is
 * found below the new root without following links: what a workspace contains
 * cannot redirect a mount.
 */
#include "sandbox/root.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/mount.h>
#include <string.h>

#include "sys/fd.h"
#include "sys/mount.h"

/* Always there, and about to be replaced anyway. */
#define STAGING "/proc"

#define PAGE_BYTES 4096
#define FILES_MIN  512

/* Stay in the root, where nobody can open them either. */
#define MASK_FILE ".hidden-file"
#define MASK_DIR  ".hidden"

/* ---- opening trees ---- */

static int check_same(const struct step *step, struct err *err)
{
	struct stat st;

	if (fstat(step->fd, &st) < 0)
		return err_set(err, errno, "look at '%.200s'", step->source);
	if (st.st_dev != step->device || st.st_ino != step->inode)
		return err_say(err, ESTALE, "'%.200s' was replaced by something else just now",
			       step->source);
	return 0;
}

static int open_bind(struct step *step, struct err *err)
{
	int r;

	step->fd = mount_clone(AT_FDCWD, step->source);
	if (step->fd < 0)
		return err_set(err, -step->fd, "open the tree '%.200s'", step->source);
	if (step->is_users) {
		r = check_same(step, err);
		if (r < 0)
			return r;
	}
	r = mount_restrict(step->fd, step->attributes, true);
	return r < 0 ? err_set(err, -r, "restrict the tree '%.200s'", step->source) : 0;
}

/*
 * Shows the tree's files, which are its owner's, as the agent's, and writes the
 * agent's files as the owner's.
 */
static int map_ids(const struct plan *plan, struct step *step, struct err *err)
{
	_cleanup_close_ int userns_fd = -1;
	struct userns_map map;
	struct stat st;
	int r;

	if (fstat(step->fd, &st) < 0)
		return err_set(err, errno, "look at '%.200s'", step->source);
	map = (struct userns_map){
		.inside_uid = st.st_uid,
		.outside_uid = plan->map.outside_uid,
		.inside_gid = st.st_gid,
		.outside_gid = plan->map.outside_gid,
	};
	userns_fd = userns_open_mapped(&map);
	if (userns_fd < 0)
		return err_set(err, -userns_fd, "make a user namespace for '%.200s'", step->source);
	r = mount_idmap(step->fd, userns_fd);
	if (r == 0 || (step->attributes & MOUNT_ATTR_RDONLY))
		return 0; /* read-only, the agent sees what others may see: less, not more */
	err_set(err, -r, "map the ids of '%.200s'", step->source);
	err_hint(err, "its file system cannot show root's files as the agent's; use a directory "
		      "on ext4, xfs or btrfs (tmpfs: from Linux 6.3 on), or start warder as the "
		      "user who owns it");
	return r;
}

int root_open_privileged(struct plan *plan, struct err *err)
{
	for (size_t i = 0; i < plan->step_count; i++) {
		struct step *step = &plan->steps[i];
		int r;

		if (step->kind != STEP_BIND || !step->is_users)
			continue;
		r = open_bind(step, err);
		if (r == 0 && !step->keeps_ids)
			r = map_ids(plan, step, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int open_new(struct step *step, const char *type, const struct mount_option *options,
		    uint64_t attributes, struct err *err)
{
	step->fd = mount_new(type, options, attributes);
	if (step->fd >= 0)
		return 0;
	err_set(err, -step->fd, "mount %s at /%.200s", type, step->dest);
	if (step->kind == STEP_PROC && step->fd == -EPERM)
		err_hint(err, "parts of /proc are hidden on this host, as in a container; start "
			      "the container with an unmasked /proc");
	return step->fd;
}

static int open_tmpfs(struct step *step, struct err *err)
{
	char size[32], files[32];
	const struct mount_option options[] = {
		{ "size", size },
		{ "nr_inodes", files },
		{ "mode", "0755" },
		{ NULL, NULL },
	};

	snprintf(size, sizeof(size), "%" PRIu64, step->size_bytes);
	/* An empty file takes memory, too: as many files as pages, and what the root needs. */
	snprintf(files, sizeof(files), "%" PRIu64, step->size_bytes / PAGE_BYTES + FILES_MIN);
	return open_new(step, "tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
}

static int open_devpts(struct step *step, struct err *err)
{
	static const struct mount_option options[] = {
		{ "newinstance", NULL },
		{ "ptmxmode", "0666" },
		{ "mode", "0620" },
		{ NULL, NULL },
	};

	return open_new(step, "devpts", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, err);
}

static int open_proc(struct step *step, struct err *err)
{
	return open_new(step, "proc", NULL,
			MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, err);
}

int root_open(struct plan *plan, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < plan->step_count && r == 0; i++) {
		struct step *step = &plan->steps[i];

		if (step->fd >= 0)
			continue;
		if (step->kind == STEP_BIND)
			r = open_bind(step, err);
		else if (step->kind == STEP_TMPFS)
			r = open_tmpfs(step, err);
		else if (step->kind == STEP_DEVPTS)
			r = open_devpts(step, err);
		else if (step->kind == STEP_PROC)
			r = open_proc(step, err);
	}
	return r;
}

/* ---- building ---- */

/*
 * The root under construction. Most steps follow one in the same directory, which is
 * kept open; a mount in it covers something below, never the directory itself.
 */
struct site {
	int root_fd;
	int dir_fd; /* the directory that `dir` names, or -1 */
	char dir[PATH_MAX];
	int mask_fds[2]; /* an empty file and an empty directory that nobody may open */
};

/*
 * Opens the directory of the site that `path` is to be made in, through no link, and
 * makes what is missing of it. The site owns it; *ret_name is the last component.
 */
static int enter_dir(struct site *site, const char *path, const char **ret_name)
{
	const char *last = strrchr(path, '/');
	size_t len = last ? (size_t)(last - path) : 0;

	*ret_name = last ? last + 1 : path;
	if (site->dir_fd >= 0 && strlen(site->dir) == len && memcmp(site->dir, path, len) == 0)
		return site->dir_fd;
	if (len >= sizeof(site->dir))
		return -ENAMETOOLONG;
	close_fd(&site->dir_fd);
	memcpy(site->dir, path, len);
	site->dir[len] = '\0';
	if (len == 0)
		site->dir_fd = fcntl(site->root_fd, F_DUPFD_CLOEXEC, 0);
	else
		site->dir_fd = mount_open_beneath(site->root_fd, site->dir, O_PATH | O_DIRECTORY);
	return site->dir_fd;
}

/* Makes the directories above `path` one by one, each below the one before. */
static int make_parents(struct site *site, const char *path)
{
	_cleanup_close_ int fd = fcntl(site->root_fd, F_DUPFD_CLOEXEC, 0);
	const char *slash;

	for (; fd >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
		char name[NAME_MAX + 1];
		int next;

		if (slash - path > NAME_MAX)
			return -ENAMETOOLONG;
		snprintf(name, sizeof(name), "%.*s", (int)(slash - path), path);
		if (mkdirat(fd, name, 0755) < 0 && errno != EEXIST)
			return -errno;
		next = mount_open_beneath(fd, name, O_PATH | O_DIRECTORY);
		if (next < 0)
			return next;
		close_fd(&fd);
		fd = next;
	}
	return fd < 0 ? -errno : 0;
}

/* The directory to make `path` in, made if need be. */
static int make_way(struct site *site, const char *path, const char **ret_name)
{
	int fd = enter_dir(site, path, ret_name);
	int r;

	if (fd != -ENOENT)
		return fd;
	r = make_parents(site, path);
	return r < 0 ? r : enter_dir(site, path, ret_name);
}

/* Makes a file that was not there; returns it open. */
static int make_file(struct site *site, const char *path, mode_t mode)
{
	const char *name;
	int dir_fd = make_way(site, path, &name);
	int fd;

	if (dir_fd < 0)
		return dir_fd;
	fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	return fd < 0 ? -errno : fd;
}

static int make_dir(struct site *site, const char *path, mode_t mode)
{
	const char *name;
	int dir_fd = make_way(site, path, &name);

	if (dir_fd < 0)
		return dir_fd;
	return mkdirat(dir_fd, name, mode) < 0 && errno != EEXIST ? -errno : 0;
}

static int make_symlink(struct site *site, const char *path, const char *target)
{
	const char *name;
	int dir_fd = make_way(site, path, &name);

	if (dir_fd < 0)
		return dir_fd;
	return symlinkat(target, dir_fd, name) < 0 ? -errno : 0;
}

static int make_content_file(struct site *site, const struct step *step)
{
	_cleanup_close_ int fd = make_file(site, step->dest, step->mode);
	const char *content = step->source;
	uint64_t size = step->size_bytes;
	int r = 0;

	if (fd < 0)
		return fd;
	if (step->file)
		r = step->file->make(step->file->owner, &content, &size);
	if (r == 0 && size > step->size_bytes)
		r = -EFBIG;
	return r < 0 ? r : fd_write_all(fd, content, (size_t)size);
}

/* Opens what is at `path`, through no link. */
static int open_place(struct site *site, const char *path)
{
	const char *name;
	int dir_fd = enter_dir(site, path, &name);

	return dir_fd < 0 ? dir_fd : mount_open_beneath(dir_fd, name, O_PATH);
}

/* Finds the place for a mount, and makes it where the plan says that may be done. */
static int open_mount_point(struct site *site, const struct step *step, bool is_dir,
			    struct err *err)
{
	int fd = -EEXIST;

	if (step->may_create && is_dir) {
		int r = make_dir(site, step->dest, 0755);

		fd = r < 0 ? r : -EEXIST;
	} else if (step->may_create) {
		fd = make_file(site, step->dest, 0444);
	}
	if (fd == -EEXIST)
		fd = open_place(site, step->dest);
	if (fd == -ENOENT)
		return err_say(err, ENOENT,
			       "destination '/%.200s' does not exist in the mount it "
			       "lies in, and nothing is created there; create it first, or choose "
			       "another destination",
			       step->dest);
	if (fd == -ELOOP)
		return err_say(err, ELOOP, "destination '/%.200s' leads through a symbolic link",
			       step->dest);
	return fd < 0 ? err_set(err, -fd, "open the mount point '/%.200s'", step->dest) : fd;
}

static int attach(struct site *site, const struct step *step, bool is_dir, struct err *err)
{
	_cleanup_close_ int point_fd = open_mount_point(site, step, is_dir, err);
	int r;

	if (point_fd < 0)
		return point_fd;
	r = mount_attach(step->fd, point_fd);
	if (r == -ENOTDIR)
		return err_say(err, ENOTDIR,
			       "destination '/%.200s' and what goes there are not "
			       "both files or both directories",
			       step->dest);
	return r < 0 ? err_set(err, -r, "mount at '/%.200s'", step->dest) : 0;
}

/* A mount of a part of the root itself, over that part, with its own attributes. */
static int remount(struct site *site, const char *path, uint64_t attributes)
{
	_cleanup_close_ int point_fd = open_place(site, path);
	_cleanup_close_ int tree_fd = point_fd < 0 ? -1 : mount_clone(point_fd, "");
	int r;

	if (point_fd < 0 || tree_fd < 0)
		return point_fd < 0 ? point_fd : tree_fd;
	r = mount_restrict(tree_fd, attributes, true);
	if (r == 0)
		r = mount_attach(tree_fd, point_fd);
	return r;
}

/* Whether there is nothing of that name that could be covered. */
static bool is_absent(int r)
{
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP;
}

/* Shows a file of the root in the place of a file; anything else is left as it is. */
static int cover(struct site *site, const struct step *step)
{
	_cleanup_close_ int point_fd = open_place(site, step->dest);
	_cleanup_close_ int file_fd = -1, tree_fd = -1;
	struct stat st;
	int r;

	if (point_fd < 0)
		return is_absent(point_fd) ? 0 : point_fd;
	if (fstat(point_fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return 0;
	file_fd = open_place(site, step->source);
	tree_fd = file_fd < 0 ? file_fd : mount_clone(file_fd, "");
	if (tree_fd < 0)
		return tree_fd;
	r = mount_restrict(tree_fd, step->attributes, false);
	return r < 0 ? r : mount_attach(tree_fd, point_fd);
}

static int make_scratch(struct site *site, const struct step *step)
{
	int r = make_dir(site, step->dest, step->mode);

	return r < 0 ? r : remount(site, step->dest, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

/* Covers a path with the empty file or directory, whichever fits. */
static int mask(struct site *site, const char *path)
{
	_cleanup_close_ int point_fd = open_place(site, path);
	_cleanup_close_ int tree_fd = -1;
	struct stat st;

	if (point_fd < 0)
		return point_fd == -ENOENT ? 0 : point_fd;
	if (fstat(point_fd, &st) < 0)
		return -errno;
	/* The copy is read-only because the root is by now. */
	tree_fd = mount_clone(site->mask_fds[S_ISDIR(st.st_mode) ? 1 : 0], "");
	return tree_fd < 0 ? tree_fd : mount_attach(tree_fd, point_fd);
}

static int freeze(struct site *site, const char *path)
{
	int r = remount(site, path, MOUNT_ATTR_RDONLY);

	return r == -ENOENT ? 0 : r;
}

static int apply(struct site *site, const struct step *step, struct err *err)
{
	int r = 0;

	switch (step->kind) {
	case STEP_BIND:
		return attach(site, step, step->is_dir, err);
	case STEP_TMPFS:
	case STEP_PROC:
	case STEP_DEVPTS:
		return attach(site, step, true, err);
	case STEP_DIR:
		r = make_dir(site, step->dest, step->mode);
		break;
	case STEP_FILE:
		r = make_content_file(site, step);
		break;
	case STEP_COVER:
		r = cover(site, step);
		break;
	case STEP_SYMLINK:
		r = make_symlink(site, step->dest, step->source);
		break;
	case STEP_SCRATCH:
		r = make_scratch(site, step);
		break;
	case STEP_MASK:
		r = mask(site, step->dest);
		break;
	case STEP_FREEZE:
		r = freeze(site, step->dest);
		break;
	}
	return r < 0 ? err_set(err, -r, "set up '/%.200s' in the sandbox", step->dest) : 0;
}

static int apply_all(struct site *site, const struct plan *plan, bool masks, struct err *err)
{
	for (size_t i = 0; i < plan->step_count; i++) {
		int r = (plan->steps[i].kind == STEP_MASK) == masks
				? apply(site, &plan->steps[i], err)
				: 0;

		if (r < 0)
			return r;
	}
	return 0;
}

/* Two empty things without rights, to cover others with. */
static int make_masks(struct site *site)
{
	site->mask_fds[0] = openat(site->root_fd, MASK_FILE,
				   O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
	if (site->mask_fds[0] < 0 || mkdirat(site->root_fd, MASK_DIR, 0) < 0)
		return -errno;
	site->mask_fds[1] = openat(site->root_fd, MASK_DIR, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return site->mask_fds[1] < 0 ? -errno : 0;
}

static int attach_root(int root_fd, struct err *err)
{
	_cleanup_close_ int staging_fd = open(STAGING, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (staging_fd < 0)
		return err_set(err, errno, "open " STAGING);
	r = mount_attach(root_fd, staging_fd);
	return r < 0 ? err_set(err, -r, "attach the new root") : 0;
}

static int build(const struct plan *plan, int root_fd, struct err *err)
{
	struct site site = { .root_fd = root_fd, .dir_fd = -1, .mask_fds = { -1, -1 } };
	int r = make_masks(&site);

	if (r < 0)
		return err_set(err, -r, "write to the new root");
	r = apply_all(&site, plan, false, err);
	if (r < 0)
		return r;
	close_fd(&site.dir_fd);
	r = mount_restrict(root_fd, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
			   false);
	if (r < 0)
		return err_set(err, -r, "make the root read-only");
	/* Last: copies of the masks shall be read-only, too. What is open closes at the exec. */
	return apply_all(&site, plan, true, err);
}

/* What is written before the agent is there is not taken from what it may write. */
static uint64_t content_size(const struct plan *plan)
{
	uint64_t size = 0;

	for (size_t i = 0; i < plan->step_count; i++)
		if (plan->steps[i].kind == STEP_FILE)
			size += (plan->steps[i].size_bytes / PAGE_BYTES + 1) * PAGE_BYTES;
	return size;
}

int root_enter(struct plan *plan, struct err *err)
{
	struct step root = {
		.kind = STEP_TMPFS,
		.dest = "",
		.size_bytes = plan->limits.tmpfs_bytes + content_size(plan),
		.fd = -1,
	};
	_cleanup_close_ int root_fd = -1;
	int r = open_tmpfs(&root, err);

	root_fd = root.fd;
	if (r == 0)
		r = attach_root(root_fd, err);
	if (r == 0)
		r = build(plan, root_fd, err);
	if (r < 0)
		return r;
	r = mount_pivot(root_fd);
	return r < 0 ? err_set(err, -r, "leave the old root") : 0;
}
