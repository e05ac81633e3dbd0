/* SPDX-License-Identifier: MIT */
/* Ends the process when memory has run out; every size that reaches an allocator is bounded. */
#include "base/die.h"

void die_no_memory(void)
{
	static const char text[] = "warder: out of memory\n";

	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		abort();
	abort();
}
