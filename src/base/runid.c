/* SPDX-License-Identifier: MIT */
/* Run ids. */
#include "base/runid.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool runid_is_valid(const char *id)
{
	size_t len = strnlen(id, RUNID_MAX + 1);

	if (len == 0 || len > RUNID_MAX || !is_alnum(id[0]))
		return false;
	for (size_t i = 1; i < len; i++)
		if (!is_alnum(id[i]) && !strchr(".-_", id[i]))
			return false;
	return true;
}

void runid_format(uint64_t now_ms, const unsigned char random[10], char *ret_id)
{
	static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"; /* Crockford's base 32 */
	unsigned char bytes[16];
	unsigned int bits = 0, count = 2; /* 26 digits are 130 bits: two zeros in front */
	size_t next = 0;

	for (int i = 0; i < 6; i++)
		bytes[i] = (unsigned char)(now_ms >> (8 * (5 - i)));
	memcpy(bytes + 6, random, 10);
	for (size_t i = 0; i < RUNID_ULID_LEN; i++) {
		if (count < 5) {
			bits = bits << 8 | bytes[next++];
			count += 8;
		}
		count -= 5;
		ret_id[i] = digits[bits >> count & 31];
	}
	ret_id[RUNID_ULID_LEN] = '\0';
}

int runid_new(char *ret_id)
{
	unsigned char random[10];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -errno;
	runid_format(clock_ms(CLOCK_REALTIME), random, ret_id);
	return 0;
}
