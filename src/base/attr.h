/* SPDX-License-Identifier: MIT */
/* Compiler attributes under short names, and cleanup of local resources. */
#ifndef BASE_ATTR_H
#define BASE_ATTR_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define must_check      __attribute__((warn_unused_result))
#define printf_like(f)  __attribute__((format(printf, f, (f) + 1)))
#define does_not_return __attribute__((noreturn))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* The struct whose `member` is at `part`. */
#define OWNER_OF(part, type, member) ((type *)(void *)((char *)(part)-offsetof(type, member)))

/* Moves a descriptor out of a variable that would otherwise close it. */
static inline int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

static inline void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_file(FILE **file)
{
	if (*file)
		fclose(*file);
}

#define _cleanup_close_ __attribute__((cleanup(close_fd)))
#define _cleanup_free_  __attribute__((cleanup(cleanup_free)))
#define _cleanup_file_  __attribute__((cleanup(cleanup_file)))

#endif
