/* SPDX-License-Identifier: MIT */
/*
 * Runs a command with libwarder and tells what happened.
 *
 *	cc run_once.c $(pkg-config --cflags --libs warder) -o run_once
 *	./run_once /path/to/workspace sh -c 'echo hello; exit 3'
 */
#include <stdio.h>
#include <warder.h>

int main(int argc, char **argv)
{
	struct warder_spec spec = WARDER_SPEC_INIT;
	struct warder_result result;
	const char *error;
	int status;

	if (argc < 3) {
		fprintf(stderr, "usage: run_once WORKSPACE COMMAND [ARG...]\n");
		return 2;
	}
	spec.workspace = argv[1];
	spec.argv = (const char *const *)argv + 2;
	spec.limits.timeout_ms = 10000;
	spec.limits.pids = 64;
	spec.limits.output_bytes = 64 * 1024;

	if (warder_run_once(&spec, &result) < 0)
		fprintf(stderr, "not started: %s\n", result.message);
	error = warder_error_name(result.error);
	printf("run %s: %s, exit code %d, error %s, %llu ms\n", result.run_id,
	       result.ok ? "ok" : "not ok", result.exit_code, error ? error : "none",
	       (unsigned long long)result.duration_ms);
	printf("stdout: %s", result.out);
	printf("stderr: %s", result.err);
	status = result.ok ? 0 : 1;
	warder_result_clear(&result);
	return status;
}
