/* SPDX-License-Identifier: MIT */
/* A bump allocator over a chain of blocks. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "base/die.h"

/* Each block is twice the one before, up to a size: many an arena holds a few words only. */
#define BLOCK_FIRST ((size_t)256)
#define BLOCK_MOST  ((size_t)16 * 1024)
#define ALIGNMENT   _Alignof(max_align_t)

struct arena_block {
	struct arena_block *next;
	size_t used;
	size_t size;
	_Alignas(max_align_t) unsigned char data[];
};

static struct arena_block *block_new(const struct arena_block *before, size_t at_least)
{
	size_t size = before ? 2 * before->size : BLOCK_FIRST;
	struct arena_block *block;

	size = size < BLOCK_MOST ? size : BLOCK_MOST;
	size = size > at_least ? size : at_least;
	block = calloc(1, sizeof(*block) + size);
	if (!block)
		die_no_memory();
	block->size = size;
	return block;
}

void *arena_alloc(struct arena *arena, size_t size)
{
	struct arena_block *block = arena->head;
	void *p;

	if (size > SIZE_MAX / 2)
		die_no_memory();
	size = (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
	if (!block || block->size - block->used < size) {
		block = block_new(block, size);
		block->next = arena->head;
		arena->head = block;
	}
	p = block->data + block->used;
	block->used += size;
	return p;
}

char *arena_strdup(struct arena *arena, const char *text)
{
	size_t size = strlen(text) + 1;

	return memcpy(arena_alloc(arena, size), text, size);
}

char *arena_printf(struct arena *arena, const char *fmt, ...)
{
	va_list ap, again;
	char *text;
	int len;

	va_start(ap, fmt);
	va_copy(again, ap);
	len = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (len < 0)
		die_no_memory();
	text = arena_alloc(arena, (size_t)len + 1);
	vsnprintf(text, (size_t)len + 1, fmt, again);
	va_end(again);
	return text;
}

void arena_fini(struct arena *arena)
{
	struct arena_block *block = arena->head;

	while (block) {
		struct arena_block *next = block->next;

		free(block);
		block = next;
	}
	arena->head = NULL;
}
