/* SPDX-License-Identifier: MIT */
/* What a process lets others see of it. */
#ifndef SYS_PROCESS_H
#define SYS_PROCESS_H

#include "base/attr.h"

/* A sanitizer looks into its own process when it reports: that must stay possible. */
#if defined(__SANITIZE_ADDRESS__)
#define PROCESS_IS_SANITIZED 1
#elif defined(__has_feature)
#define PROCESS_IS_SANITIZED __has_feature(address_sanitizer)
#else
#define PROCESS_IS_SANITIZED 0
#endif

/* No core dumps, no tracing, no reading of its memory by anybody but root. 0 or -errno. */
int process_hide(void) must_check;

#endif
