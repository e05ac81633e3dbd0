/* SPDX-License-Identifier: MIT */
/* Requests that are worked out, or refused with a reason, before anything is started. */
#include "unit.h"

#include "sandbox/plan.h"

static const char *const argv[] = { "true", NULL };

static struct warder_spec make_spec(const struct warder_mount *mounts, size_t count)
{
	struct warder_spec spec = WARDER_SPEC_INIT;

	spec.workspace = "/tmp";
	spec.argv = argv;
	spec.mounts = mounts;
	spec.mount_count = count;
	return spec;
}

/* How many steps of a kind a plan has; -1: there is no plan, and the error has `why` in it. */
static int count_steps(const struct warder_spec *spec, enum step_kind kind, const char *why)
{
	struct plan *plan;
	struct err err;
	int count = 0;

	if (plan_new(spec, &plan, &err) < 0) {
		if (!why || !strstr(err.text, why))
			fail_msg("%s", err.text);
		return -1;
	}
	for (size_t i = 0; i < plan->step_count; i++)
		count += plan->steps[i].kind == kind;
	plan_free(plan);
	return count;
}

static void a_file_is_made_once_and_shown_often(void **state)
{
	static const struct warder_mount mounts[] = {
		{ WARDER_MOUNT_FILE, "text", "/etc/mine/file", 4, NULL, NULL },
		{ WARDER_MOUNT_COVER, "/etc/mine/file", "/usr/share/one", 0, NULL, NULL },
		{ WARDER_MOUNT_COVER, "/etc/mine/file", "/workspace/two", 0, NULL, NULL },
		/* Where nothing of the host can be, there is nothing to be covered. */
		{ WARDER_MOUNT_COVER, "/etc/mine/file", "/proc/version", 0, NULL, NULL },
		{ WARDER_MOUNT_COVER, "/etc/mine/file", "relative", 0, NULL, NULL },
		{ WARDER_MOUNT_COVER, "/etc/mine/file", "/usr/../etc/passwd", 0, NULL, NULL },
	};
	struct warder_spec none = make_spec(NULL, 0), all = make_spec(mounts, ARRAY_LEN(mounts));

	(void)state;
	assert_int_equal(count_steps(&none, STEP_COVER, NULL), 0);
	assert_int_equal(count_steps(&all, STEP_COVER, NULL), 2);
	assert_int_equal(count_steps(&all, STEP_FILE, NULL),
			 count_steps(&none, STEP_FILE, NULL) + 1);
}

static void a_file_lies_in_no_tree_of_the_host(void **state)
{
	static const struct {
		struct warder_mount mount;
		const char *why;
	} rows[] = {
		{ { WARDER_MOUNT_FILE, "x", "/usr/share/file", 1, NULL, NULL },
		  "tree of the host" },
		{ { WARDER_MOUNT_FILE, "x", "/workspace/file", 1, NULL, NULL },
		  "tree of the host" },
		{ { WARDER_MOUNT_FILE, "x", "/proc/file", 1, NULL, NULL }, "/proc" },
		{ { WARDER_MOUNT_FILE, NULL, "/etc/mine", 0, NULL, NULL }, "no content" },
		{ { WARDER_MOUNT_COVER, "/etc/mine", "/usr/share/one", 0, NULL, NULL },
		  "no file before it" },
		{ { WARDER_MOUNT_COVER, "etc/mine", "/usr/share/one", 0, NULL, NULL },
		  "no file before it" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct warder_spec spec = make_spec(&rows[i].mount, 1);

		assert_int_equal(count_steps(&spec, STEP_FILE, rows[i].why), -1);
	}
}

static void ways_to_capture_have_names(void **state)
{
	static const char *const known[] = { NULL, "auto", "nft", "ports" };
	struct warder_spec spec = make_spec(NULL, 0);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		spec.capture = known[i];
		assert_int_equal(count_steps(&spec, STEP_COVER, NULL), 0);
	}
	spec.capture = "iptables";
	assert_int_equal(count_steps(&spec, STEP_COVER, "auto, nft or ports"), -1);
}

int main(void)
{
	RUN_TESTS(TEST(a_file_is_made_once_and_shown_often),
		  TEST(a_file_lies_in_no_tree_of_the_host), TEST(ways_to_capture_have_names));
}
