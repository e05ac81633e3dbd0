/* SPDX-License-Identifier: MIT */
/* A build tool: the schema of the audit log as a page for people, from events.def. */
#include <stdio.h>

int main(void)
{
	printf("# The audit log\n\n"
	       "One JSON object per line, in the order in which things happened. Every record "
	       "has:\n\n"
	       "| key | type | meaning |\n|---|---|---|\n"
	       "| `seq` | number | the record's number, from 1 |\n"
	       "| `time` | string | when it was written, UTC |\n"
	       "| `prev` | string | `hash` of the record before, or 64 zeros |\n"
	       "| `event` | string | one of those below |\n"
	       "| `hash` | string | SHA-256 of the line up to `,\"hash\"`, in hex; always last "
	       "|\n\n"
	       "`warder audit verify` checks all of this. It never holds a body, a query string, a "
	       "header value or\na secret. Keys that do not apply are left out.\n");
#define EVENT(name, help)                                                                          \
	printf("\n## `" #name "`: " help "\n\n| key | type | meaning |\n|---|---|---|\n");
#define TEXT(field, key, most, help) printf("| `" key "` | string | " help " |\n");
#define NUMBER(field, key, help)     printf("| `" key "` | number | " help " |\n");
#define FLAG(field, key, help)       printf("| `" key "` | true or false | " help " |\n");
#define END
#include "audit/events.def"
	return fflush(stdout) == EOF;
}
