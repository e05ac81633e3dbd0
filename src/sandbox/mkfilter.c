/* SPDX-License-Identifier: MIT */
/*
 * A build tool: compiles a syscalls.def with libseccomp into C arrays, so that a run
 * loads a finished program and neither libseccomp nor its time is needed then. Built once
 * per table, with its path as SYSCALLS_DEF; the argument names the arrays.
 *
 * Two filters, because libseccomp cannot allow a call in general and refuse it for
 * certain arguments in one: the first says what may be called at all, the second
 * which arguments are refused. The kernel applies both; the stricter answer counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LOW_HALF UINT64_C(0xffffffff)

#define EQUAL(argument, value)                                                                     \
	{                                                                                          \
		argument, SCMP_CMP_MASKED_EQ, LOW_HALF, value                                      \
	}
#define BITS(argument, mask)                                                                       \
	{                                                                                          \
		argument, SCMP_CMP_MASKED_EQ, mask, mask                                           \
	}
#define MASKED(argument, mask, value)                                                              \
	{                                                                                          \
		argument, SCMP_CMP_MASKED_EQ, mask, value                                          \
	}
#define ABOVE(argument, value)                                                                     \
	{                                                                                          \
		argument, SCMP_CMP_GT, value, 0                                                    \
	}

struct rule {
	int is_refusal;
	const char *name;
	int error;
	unsigned int test_count;
	struct scmp_arg_cmp tests[2];
};

static const struct rule rules[] = {
#define ALLOW(name)                                  { 0, #name, 0, 0, { { 0 } } },
#define ALLOW_IF(name, argument, value)              { 0, #name, 0, 1, { EQUAL(argument, value) } },
#define REFUSE(name, error, reason)                  { 1, #name, error, 0, { { 0 } } },
#define REFUSE_IF(name, error, reason, test)         { 1, #name, error, 1, { test } },
#define REFUSE_IF2(name, error, reason, test, other) { 1, #name, error, 2, { test, other } },
#include SYSCALLS_DEF
};

static void die(const char *what, const char *name, int error)
{
	errno = error < 0 ? -error : error;
	fprintf(stderr, "mkfilter: %s %s: %m\n", what, name);
	exit(1);
}

static scmp_filter_ctx filter_new(uint32_t otherwise)
{
	scmp_filter_ctx filter = seccomp_init(otherwise);
	int r;

	if (!filter)
		die("create", "filter", ENOMEM);
	/* An ABI that is not listed (x32) has no system calls at all. */
	r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a binary tree */
	if (r < 0)
		die("configure", "filter", r);
#if defined(__x86_64__)
	r = seccomp_arch_add(filter, SCMP_ARCH_X86);
#elif defined(__aarch64__)
	r = seccomp_arch_add(filter, SCMP_ARCH_ARM);
#endif
	if (r < 0)
		die("add", "the 32-bit ABI", r);
	return filter;
}

static void add(scmp_filter_ctx filter, const struct rule *rule)
{
	int number = seccomp_syscall_resolve_name(rule->name);
	uint32_t action = rule->is_refusal ? SCMP_ACT_ERRNO(rule->error) : SCMP_ACT_ALLOW;
	int r;

	if (number == __NR_SCMP_ERROR)
		return; /* newer than this libseccomp: stays closed */
	r = seccomp_rule_add_array(filter, action, number, rule->test_count, rule->tests);
	if (r < 0)
		die("add", rule->name, r);
}

static void print(scmp_filter_ctx filter, const char *prefix, const char *name)
{
	FILE *file = tmpfile();
	struct sock_filter step;
	int r;

	if (!file)
		die("create", "temporary file", errno);
	r = seccomp_export_bpf(filter, fileno(file));
	if (r < 0)
		die("export", name, r);
	rewind(file);
	printf("static const struct sock_filter %s_%s[] = {\n", prefix, name);
	while (fread(&step, sizeof(step), 1, file) == 1)
		printf("\t{ 0x%02x, %u, %u, 0x%08x },\n", step.code, step.jt, step.jf, step.k);
	printf("};\n\n");
	fclose(file);
}

int main(int argc, char **argv)
{
	const char *prefix = argc > 1 ? argv[1] : "filter";
	scmp_filter_ctx allow = filter_new(SCMP_ACT_ERRNO(ENOSYS));
	scmp_filter_ctx refuse = filter_new(SCMP_ACT_ALLOW);

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		const struct rule *rule = &rules[i];

		if (rule->is_refusal && rule->test_count == 0 && rule->error == ENOSYS)
			continue; /* what is in no filter does not exist */
		add(rule->is_refusal && rule->test_count > 0 ? refuse : allow, rule);
	}
	/*
	 * For the 32-bit ABI libseccomp takes "socket" to mean socketcall as well, whose
	 * arguments no filter can read: closed again.
	 */
	add(refuse, &(struct rule){ 1, "socketcall", ENOSYS, 0, { { 0 } } });
	printf("/* Made by mkfilter.c. */\n#include <linux/filter.h>\n\n");
	print(allow, prefix, "allow");
	print(refuse, prefix, "refuse");
	seccomp_release(allow);
	seccomp_release(refuse);
	return 0;
}
