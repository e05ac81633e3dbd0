/* SPDX-License-Identifier: MIT */
/* Runs a fuzz target once on every file of a directory: the corpus as an ordinary test. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path)
{
	static uint8_t data[1 << 20];
	FILE *file = fopen(path, "rb");
	uint8_t *copy;
	size_t size;

	if (!file)
		return -1;
	size = fread(data, 1, sizeof(data), file);
	fclose(file);
	copy = malloc(size ? size : 1); /* its own block, so that reading beyond it is noticed */
	if (!copy)
		return -1;
	for (size_t i = 0; i < size; i++)
		copy[i] = data[i];
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
	return 0;
}

int main(int argc, char **argv)
{
	DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
	struct dirent *entry;
	int count = 0;

	if (!dir)
		return 2;
	while ((entry = readdir(dir))) {
		char path[4096];

		snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
		if (entry->d_name[0] != '.' && replay(path) == 0)
			count++;
	}
	closedir(dir);
	printf("%sok 1 - %d inputs replayed\n1..1\n", count ? "" : "not ", count);
	return count == 0;
}
