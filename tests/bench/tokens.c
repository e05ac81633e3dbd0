/* SPDX-License-Identifier: MIT */
/* Tokens. */
#include "tokens.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tokens_read(struct tokens *tokens, const char *path)
{
	FILE *file = fopen(path, "r");
	size_t size = 0, len;

	if (!file || getdelim(&tokens->text, &size, EOF, file) <= 0)
		err(1, "read %s", path);
	fclose(file);
	len = strlen(tokens->text);
	tokens->len = strcspn(tokens->text, "\n");
	tokens->count = len / (tokens->len + 1);
	if (tokens->count == 0 || tokens->count * (tokens->len + 1) != len)
		errx(1, "%s does not have lines of one length", path);
}

const char *tokens_next(struct tokens *tokens)
{
	const char *token = tokens->text + tokens->next * (tokens->len + 1);

	tokens->next = (tokens->next + 1) % tokens->count;
	return token;
}
