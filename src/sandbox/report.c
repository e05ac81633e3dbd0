/* SPDX-License-Identifier: MIT */
/* The result as JSON. */
#include <string.h>

#include "base/json.h"
#include "warder.h"

#define API __attribute__((visibility("default")))

API const char *warder_error_name(enum warder_error error)
{
	static const char *const names[] = {
		[WARDER_ERROR_NONE] = NULL,
		[WARDER_ERROR_TIMEOUT] = "timeout",
		[WARDER_ERROR_OOM_KILLED] = "oom_killed",
		[WARDER_ERROR_OUTPUT_TRUNCATED] = "output_truncated",
		[WARDER_ERROR_CONTAINER_FAILED] = "container_failed",
		[WARDER_ERROR_INTERNAL] = "internal",
	};

	return (size_t)error < ARRAY_LEN(names) ? names[error] : "internal";
}

API char *warder_result_json(const struct warder_result *result, size_t *ret_len)
{
	const char *error = warder_error_name(result->error);
	struct buf text;
	struct json json = { .out = &text };

	buf_init(&text, SIZE_MAX / 4);
	json_open(&json, NULL, '{');
	json_text(&json, "runId", result->run_id);
	json_number(&json, "attempt", result->attempt);
	json_bool(&json, "ok", result->ok);
	json_number(&json, "exitCode", result->exit_code);
	if (result->signal)
		json_number(&json, "signal", result->signal);
	if (error) {
		json_text(&json, "errorCode", error);
		json_text(&json, "errorMessage", result->message);
	}
	json_string(&json, "stdout", result->out ? result->out : "", result->out_len);
	json_string(&json, "stderr", result->err ? result->err : "", result->err_len);
	json_bool(&json, "outputTruncated", result->output_truncated);
	json_number(&json, "durationMs", (int64_t)result->duration_ms);
	if (result->memory_peak_bytes)
		json_number(&json, "memoryPeakBytes", (int64_t)result->memory_peak_bytes);
	if (result->cgroup)
		json_text(&json, "cgroup", result->cgroup);
	json_close(&json, '}');
	buf_add_text(&text, "\n");
	return buf_take(&text, ret_len);
}
