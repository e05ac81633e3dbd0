/* SPDX-License-Identifier: MIT */
/* One upstream after the other. */
#include "keeper/spend_read.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "keeper/charter.h"
#include "keeper/spend_log.h"

struct waiting {
	struct loop loop;
	const struct spend_reading *reading;
	struct err *err;
	int result;
};

static int on_row(void *owner, const struct spend_row *row, struct err *err)
{
	const struct waiting *waiting = owner;

	return waiting->reading->on_row(waiting->reading->owner, row, err);
}

static void on_done(void *owner, const struct err *err, uint64_t now_ms)
{
	struct waiting *waiting = owner;

	(void)now_ms;
	if (err) {
		*waiting->err = *err;
		waiting->result = -err->code;
	}
	loop_end(&waiting->loop);
}

static int read_one(struct waiting *waiting, struct net *net, struct tls_client *tls,
		    const struct upstream *upstream)
{
	struct spend_log_query query = {
		.upstream = upstream,
		.since_s = waiting->reading->since_s,
		.until_s = waiting->reading->until_s,
		.end_user = waiting->reading->end_user,
		.on_row = on_row,
		.on_done = on_done,
		.owner = waiting,
	};
	struct spend_log *log = spend_log_start(net, &waiting->loop, tls, &query, clock_now_ms());
	int r = loop_run(&waiting->loop);

	if (r < 0) {
		spend_log_cancel(log);
		return err_set(waiting->err, -r, "wait for %s", upstream->label);
	}
	return waiting->result;
}

/* With the loop and what is on it; whatever was made is freed here. */
static int read_all(struct waiting *waiting, const struct keeper_config *config,
		    struct tls_client *tls)
{
	struct net *net = net_new(&waiting->loop);
	size_t count = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < config->llm_count; i++) {
		struct secret *key = NULL;
		struct upstream upstream;

		if (!config->llms[i].provider->is_litellm || spend_log_is_known(config, i))
			continue;
		count++;
		if (config->llms[i].key)
			r = charter_open_key(config->llms[i].key, &key, waiting->err);
		upstream_init_llm(&upstream, config, &config->llms[i], key);
		if (r == 0)
			r = read_one(waiting, net, tls, &upstream);
		secret_free(key);
	}
	net_free(net);
	if (r == 0 && count == 0)
		r = err_say(waiting->err, EINVAL,
			    "whose log? --llm URL names a LiteLLM, --llm-key SOURCE its key");
	return r;
}

int spend_read(const struct keeper_config *config, const struct spend_reading *reading,
	       struct err *err)
{
	struct waiting waiting = { .reading = reading, .err = err };
	struct tls_client *tls = NULL;
	int r = tls_client_new(config->upstream_ca, &tls, err);

	if (r < 0)
		return r;
	r = loop_init(&waiting.loop);
	if (r < 0) {
		err_set(err, -r, "make an event loop");
	} else {
		r = read_all(&waiting, config, tls);
		loop_fini(&waiting.loop);
	}
	tls_client_free(tls);
	return r;
}
