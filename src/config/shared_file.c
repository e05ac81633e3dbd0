/* SPDX-License-Identifier: MIT */
/* A shared keeper's command line and the file that it names, together. */
#include "config/shared_config.h"

#include <errno.h>

/* A file may say that nothing is allowed; who says nothing at all has forgotten something. */
static int say_of_nothing(struct err *err)
{
	return err_say(err, EINVAL,
		       "keeper: nothing to serve: --config FILE, or --llm URL, --allow-net HOST or "
		       "--secret NAME=SOURCE@HOSTS");
}

int shared_config_read(struct shared_config *config, struct config_file *ret_file, int argc,
		       char **argv, struct err *err)
{
	const char *path;
	int r;

	*ret_file = (struct config_file){ .run = { NULL, 0 } };
	shared_config_init(config);
	r = shared_config_parse(config, argc, argv, err);
	path = config->config;
	if (config->help)
		return 0;
	if (r == 0 && !path && !shared_config_allows_any(config))
		return say_of_nothing(err);
	if (r == 0 && path) {
		r = config_file_read(path, ret_file, err);
		if (r == 0)
			r = config_file_expect(ret_file, path, CONFIG_FOR_SHARED, err);
		/* Once more, so that the command line counts over the file. */
		shared_config_fini(config);
		shared_config_init(config);
		if (r == 0)
			r = shared_config_add_file(config, ret_file, err);
		if (r == 0)
			r = shared_config_parse(config, argc, argv, err);
	}
	return r < 0 ? r : shared_config_check(config, err);
}
