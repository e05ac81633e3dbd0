/* SPDX-License-Identifier: MIT */
/* A build tool: the scripts that are named, each as a string of C: NAME.lua is called lua_NAME. */
#include <stdio.h>
#include <string.h>

/* The name of a file without its directories; its ending comes first. */
static void print_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	int len = (int)strcspn(name, ".");

	printf("static const char %s_%.*s[] =\n\t\"", name[len] ? name + len + 1 : "", len, name);
}

static void print_char(int c)
{
	if (c == '\n')
		fputs("\\n\"\n\t\"", stdout);
	else if (c == '\t')
		fputs("\\t", stdout);
	else if (c == '"' || c == '\\')
		printf("\\%c", c);
	else
		putchar(c);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "re");
		int c;

		if (!file) {
			perror(argv[i]);
			return 1;
		}
		print_name(argv[i]);
		while ((c = getc(file)) != EOF)
			print_char(c);
		printf("\";\n\n");
		if (fclose(file) == EOF)
			return 1;
	}
	return fflush(stdout) == EOF;
}
