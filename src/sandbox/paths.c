/* SPDX-License-Identifier: MIT */
/* Absolute paths as text. */
#include "sandbox/paths.h"

#include <string.h>

bool path_is_clean(const char *path)
{
	if (*path != '/')
		return false;
	while (*path == '/') {
		size_t len = strcspn(++path, "/");

		if (len == 0 || (len == 1 && path[0] == '.') ||
		    (len == 2 && path[0] == '.' && path[1] == '.'))
			return false;
		path += len;
	}
	return true;
}

bool path_is_within(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	if (strcmp(dir, "/") == 0)
		return true;
	return strncmp(path, dir, len) == 0 && (path[len] == '/' || !path[len]);
}
