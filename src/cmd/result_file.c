/* SPDX-License-Identifier: MIT */
/* The result file. */
#include "cmd/result_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "sys/fd.h"

static bool is_proc(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

/* Whether files can be made in a directory; the one that finds out has no name. */
static int try_create(int dir_fd)
{
	_cleanup_close_ int fd = openat(dir_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

	if (fd >= 0)
		return 0;
	/* Not every file system knows such files. */
	if ((errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT) && !is_proc(dir_fd))
		return faccessat(dir_fd, ".", W_OK, AT_EACCESS) < 0 ? -errno : 0;
	return -errno;
}

static int open_dir(struct result_file *file, const char *path, struct err *err)
{
	char copy[4096];
	struct stat st;
	int r;

	if ((size_t)snprintf(copy, sizeof(copy), "%s", path) >= sizeof(copy))
		return err_say(err, ENAMETOOLONG, "--%s: the path is too long", file->option);
	file->dir_fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (file->dir_fd < 0)
		return err_set(err, errno, "--%s: open the directory of '%.200s'", file->option,
			       path);
	file->name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	if (!*file->name)
		return err_say(err, EISDIR, "--%s: '%.200s' names a directory", file->option, path);
	if (fstatat(file->dir_fd, file->name, &st, 0) < 0 && errno != ENOENT)
		return err_set(err, errno, "--%s: '%.200s'", file->option, path);
	if (fstatat(file->dir_fd, file->name, &st, 0) == 0 && S_ISDIR(st.st_mode))
		return err_say(err, EISDIR, "--%s: '%.200s' is a directory", file->option, path);
	r = try_create(file->dir_fd);
	return r < 0 ? err_set(err, -r, "--%s: create a file at '%.200s'", file->option, path) : 0;
}

/*
 * Whether a link at the end of this path may be followed. In /dev and /proc the links are
 * the system's; anywhere else one may have been put there by an agent.
 */
static bool is_systems(const char *path)
{
	return strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0;
}

/* Opens a pipe or a terminal; what is opened is looked at, not what was there before. */
static int open_stream(struct result_file *file, const char *path, struct err *err)
{
	int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK |
		    (is_systems(path) ? 0 : O_NOFOLLOW);
	struct stat st;

	file->fd = open(path, flags);
	if (file->fd < 0)
		return err_set(err, errno, "--%s: open '%.200s'", file->option, path);
	if (fstat(file->fd, &st) < 0 || !(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
		return err_say(err, EINVAL, "--%s: '%.200s' is no file, pipe or terminal",
			       file->option, path);
	if (fcntl(file->fd, F_SETFL, 0) < 0)
		return err_set(err, errno, "--%s: prepare '%.200s'", file->option, path);
	return 0;
}

int result_file_open(struct result_file *file, const char *option, const char *path,
		     struct err *err)
{
	struct stat st;
	int r = is_systems(path) ? stat(path, &st) : lstat(path, &st);

	file->option = option;
	/* A file, or a link, is replaced; a link is not followed for that either. */
	if (r == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode))
		return open_stream(file, path, err);
	return open_dir(file, path, err);
}

int result_file_check_mark(const struct result_file *file, const char *mark, struct err *err)
{
	_cleanup_close_ int fd = -1;
	char begin[64] = "";
	struct stat st;
	ssize_t len;

	if (file->dir_fd < 0)
		return 0; /* a pipe replaces nothing */
	fd = openat(file->dir_fd, file->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		len = read(fd, begin, sizeof(begin) - 1);
		if (len == 0 || (len > 0 && strncmp(begin, mark, strlen(mark)) == 0))
			return 0;
	}
	return err_say(err, EEXIST,
		       "--%s: '%.200s' is there, and is none of these files; it is "
		       "not replaced",
		       file->option, file->name);
}

static int write_new(struct result_file *file, const char *temporary, const char *text, size_t len)
{
	_cleanup_close_ int fd = openat(file->dir_fd, temporary,
					O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r;

	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, text, len);
	if (r == 0 && renameat(file->dir_fd, temporary, file->dir_fd, file->name) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(file->dir_fd, temporary, 0);
	return r;
}

int result_file_write(struct result_file *file, const char *text, size_t len, struct err *err)
{
	char temporary[64];
	uint64_t random;
	int r;

	if (file->fd >= 0) {
		r = fd_write_all(file->fd, text, len);
	} else if (file->dir_fd >= 0) {
		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			return err_set(err, errno, "get random bytes");
		snprintf(temporary, sizeof(temporary), ".warder-result-%016llx",
			 (unsigned long long)random);
		r = write_new(file, temporary, text, len);
	} else {
		return 0; /* it could not be opened, and that has been said */
	}
	return r < 0 ? err_set(err, -r, "write the %s file", file->option) : 0;
}

void result_file_close(struct result_file *file)
{
	close_fd(&file->dir_fd);
	close_fd(&file->fd);
}
