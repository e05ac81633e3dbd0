/* SPDX-License-Identifier: MIT */
/* Placeholders. */
#include "keeper/placeholder.h"

#include <errno.h>
#include <sys/random.h>

/* How many random characters make it certain enough that there is no second one. */
#define RANDOM_MIN 8

/* How keys begin that are known by it; longer beginnings first. */
static const char *const prefixes[] = {
	"sk-ant-api03-", "sk-ant-admin01-",
	"sk-ant-oat01-", "sk-ant-",
	"sk-proj-",      "sk-svcacct-",
	"sk-or-v1-",     "sk-",
	"sk_live_",      "sk_test_",
	"rk_live_",      "rk_test_",
	"pk_live_",      "pk_test_",
	"whsec_",        "github_pat_",
	"ghp_",          "gho_",
	"ghu_",          "ghs_",
	"ghr_",          "glpat-",
	"gldt-",         "glrt-",
	"xoxb-",         "xoxp-",
	"xoxa-",         "xoxs-",
	"xapp-",         "AKIA",
	"ASIA",          "AIza",
	"ya29.",         "GOCSPX-",
	"hf_",           "npm_",
	"pypi-",         "dckr_pat_",
	"gsk_",          "xai-",
	"r8_",           "pplx-",
	"tvly-",         "SG.",
	"dop_v1_",       "lin_api_",
	"ntn_",          "secret_",
	"shpat_",        "key-",
	"eyJ",
};

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static size_t prefix_len(struct bytes value)
{
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
		size_t len = strlen(prefixes[i]);

		if (value.len > len && memcmp(value.data, prefixes[i], len) == 0)
			return len;
	}
	return 0;
}

static int random_character(char *ret_c)
{
	static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					 "0123456789";
	unsigned char byte;

	do {
		ssize_t n = getrandom(&byte, 1, 0);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n != 1)
			byte = UINT8_MAX;
	} while (byte >= 248); /* four times 62: each character as likely as the others */
	*ret_c = characters[byte % 62];
	return 0;
}

static bool is_kept(struct bytes value, size_t i, size_t prefix, bool keeps_others)
{
	return i < prefix || (keeps_others && !is_alnum(value.data[i]));
}

static size_t count_random(struct bytes value, size_t prefix, bool keeps_others)
{
	size_t count = 0;

	for (size_t i = 0; i < value.len; i++)
		count += !is_kept(value, i, prefix, keeps_others);
	return count;
}

static int write_text(struct bytes value, size_t prefix, bool keeps_others, char *ret_text)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < value.len; i++) {
		if (is_kept(value, i, prefix, keeps_others))
			ret_text[i] = value.data[i];
		else
			r = random_character(&ret_text[i]);
	}
	ret_text[value.len] = '\0';
	return r;
}

int placeholder_make(struct bytes value, char *ret_text)
{
	size_t prefix = prefix_len(value);
	bool keeps_others = true;
	int r;

	if (value.len < PLACEHOLDER_MIN)
		return -EINVAL;
	if (count_random(value, prefix, keeps_others) < RANDOM_MIN)
		keeps_others = false;
	if (count_random(value, prefix, keeps_others) < RANDOM_MIN)
		prefix = 0;
	do {
		r = write_text(value, prefix, keeps_others, ret_text);
	} while (r == 0 && memcmp(ret_text, value.data, value.len) == 0);
	return r;
}

int placeholder_fill(const char *text, const char *mark, char *ret_text)
{
	const char *found = strstr(text, mark);
	size_t before = found ? (size_t)(found - text) : strlen(text);
	int r = 0;

	ret_text = mempcpy(ret_text, text, before);
	if (found) {
		for (size_t i = 0; r == 0 && i < PLACEHOLDER_RANDOM; i++)
			r = random_character(ret_text++);
		text = found + strlen(mark);
	} else {
		text += before;
	}
	memcpy(ret_text, text, strlen(text) + 1);
	return r;
}
