/* SPDX-License-Identifier: MIT */
/* Settings of the allocator. */
#include "sys/heap.h"

#include <malloc.h>

#define KEPT_BYTES  (1 << 20) /* of free memory */
#define AHEAD_BYTES (128 << 10)
#define LARGE_BYTES (4 << 20) /* from here on, the kernel's own */

void heap_settle(void)
{
	mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
	mallopt(M_TOP_PAD, AHEAD_BYTES);
	mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
}

void heap_give_back(void)
{
	malloc_trim(KEPT_BYTES);
}
