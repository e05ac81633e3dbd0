/* SPDX-License-Identifier: MIT */
/* Questions about absolute paths, answered on their text alone. */
#ifndef SANDBOX_PATHS_H
#define SANDBOX_PATHS_H

#include <stdbool.h>

/* Begins with a slash, has no empty, "." or ".." component and no slash at its end. */
bool path_is_clean(const char *path);

/* Is `dir` itself or lies below it. Both are clean. */
bool path_is_within(const char *path, const char *dir);

#endif
