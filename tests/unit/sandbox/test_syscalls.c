/* SPDX-License-Identifier: MIT */
/* Every system call this build knows is either allowed or knowingly refused. */
#include "unit.h"

#include <seccomp.h>
#include <stdbool.h>

static const char *const named[] = {
#define ALLOW(name)                                  #name,
#define ALLOW_IF(name, argument, value)              #name,
#define REFUSE(name, error, reason)                  #name,
#define REFUSE_IF(name, error, reason, test)         #name,
#define REFUSE_IF2(name, error, reason, test, other) #name,
#include "sandbox/syscalls.def"
};

/* Pairs of (allowed without a test, refused without a test): no name may be in both. */
static const char *const allowed[] = {
#undef ALLOW
#undef ALLOW_IF
#undef REFUSE
#undef REFUSE_IF
#undef REFUSE_IF2
#define ALLOW(name) #name,
#define ALLOW_IF(name, argument, value)
#define REFUSE(name, error, reason)
#define REFUSE_IF(name, error, reason, test)
#define REFUSE_IF2(name, error, reason, test, other)
#include "sandbox/syscalls.def"
};

static const char *const refused[] = {
#undef ALLOW
#undef REFUSE
#define ALLOW(name)
#define REFUSE(name, error, reason) #name,
#include "sandbox/syscalls.def"
};

static bool lists(const char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

static void check_abi(uint32_t arch)
{
	for (int number = 0; number < 1024; number++) {
		char *name = seccomp_syscall_resolve_num_arch(arch, number);

		if (name && !lists(named, ARRAY_LEN(named), name))
			fail_msg("%s (%d) is in neither list", name, number);
		free(name);
	}
}

static void every_call_is_decided(void **state)
{
	(void)state;
	check_abi(seccomp_arch_native());
#if defined(__x86_64__)
	check_abi(SCMP_ARCH_X86);
#elif defined(__aarch64__)
	check_abi(SCMP_ARCH_ARM);
#endif
}

static void no_call_is_decided_twice(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		if (lists(allowed, ARRAY_LEN(allowed), refused[i]))
			fail_msg("%s is allowed and refused", refused[i]);
	for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
		if (lists(allowed, i, allowed[i]))
			fail_msg("%s is allowed twice", allowed[i]);
}

int main(void)
{
	RUN_TESTS(TEST(every_call_is_decided), TEST(no_call_is_decided_twice));
}
