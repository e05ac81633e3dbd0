/* SPDX-License-Identifier: MIT */
/* The bundle of a run. */
#include "cmd/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "cmd/keystore.h"
#include "cmd/trust_places.h"

#define BUNDLE     "/etc/warder/ca.pem" /* in the sandbox, as the next */
#define KEYSTORE   "/etc/warder/cacerts.p12"
#define BUNDLE_MAX (16 << 20)

/* Where systems keep theirs; the first that exists is the host's. */
static const char *const places[] = {
	"/etc/ssl/certs/ca-certificates.crt", /* Debian, Alpine, Arch */
	"/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, RHEL */
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/ca-bundle.pem", /* SUSE */
	"/etc/ssl/cert.pem",
};

/* Adds a file's content; 0 when it cannot be opened, 1 when it is there. */
static int add_file(struct buf *bundle, const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	char data[65536];
	ssize_t n;

	if (fd < 0)
		return 0;
	while ((n = read(fd, data, sizeof(data))) > 0)
		if (buf_add(bundle, data, (size_t)n) < (size_t)n)
			return -EFBIG;
	return n < 0 ? -errno : 1;
}

static int make_bundle(struct buf *bundle, struct bytes pem)
{
	int r = 0;

	/* A host without one: the run's own will do. */
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(places); i++)
		r = add_file(bundle, places[i]);
	if (r < 0)
		return r;
	if (bundle->len > 0 && bundle->data[bundle->len - 1] != '\n')
		buf_add_text(bundle, "\n");
	return buf_add(bundle, pem.data, pem.len) < pem.len ? -EFBIG : 0;
}

static int add_content(struct run_config *config, const char *dest, const struct buf *content,
		       struct err *err)
{
	const struct warder_mount mount = { WARDER_MOUNT_FILE, content->data, dest, content->len };

	return run_config_add_mount(config, &mount, err);
}

/* Where there is a link it leads to another of these places, and is left as it is. */
static int cover(struct run_config *config, const char *file, const char *const *paths,
		 size_t count, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		const struct warder_mount mount = { WARDER_MOUNT_COVER, file, paths[i], 0 };

		r = run_config_add_mount(config, &mount, err);
	}
	return r;
}

/* Java knows neither the bundle nor the variables. */
static int trust_java(struct trust *trust, struct run_config *config, struct err *err)
{
	struct trust_places java;
	int r;

	if (!trust_places_java(config, &java))
		return 0;
	keystore_format((struct bytes){ trust->bundle.data, trust->bundle.len }, &trust->keystore);
	r = add_content(config, KEYSTORE, &trust->keystore, err);
	return r < 0 ? r : cover(config, KEYSTORE, java.paths, java.count, err);
}

int trust_open(struct trust *trust, struct bytes pem, struct run_config *config, struct err *err)
{
	struct trust_places python;
	int r;

	buf_init(&trust->bundle, BUNDLE_MAX);
	buf_init(&trust->keystore, BUNDLE_MAX);
	r = make_bundle(&trust->bundle, pem);
	if (r < 0)
		return err_set(err, -r, "read the host's bundle of certificates");
	r = add_content(config, BUNDLE, &trust->bundle, err);
	if (r == 0)
		r = cover(config, BUNDLE, places, ARRAY_LEN(places), err);
	trust_places_python(config, &python);
	if (r == 0)
		r = cover(config, BUNDLE, python.paths, python.count, err);
	return r < 0 ? r : trust_java(trust, config, err);
}

void trust_close(struct trust *trust)
{
	buf_fini(&trust->bundle);
	buf_fini(&trust->keystore);
}

/* ---- variables ---- */

static size_t count_of(const char *const *list)
{
	size_t count = 0;

	while (list && list[count])
		count++;
	return count;
}

/* Our own last, for there the last one counts. */
static const char *java_options(struct run_config *config, const char *const *env)
{
	static const char name[] = "JAVA_TOOL_OPTIONS=";
	const char *given = "";

	for (; env && *env; env++)
		if (strncmp(*env, name, sizeof(name) - 1) == 0)
			given = *env + sizeof(name) - 1;
	return arena_printf(&config->arena,
			    "%s%s%s-Djavax.net.ssl.trustStore=" KEYSTORE
			    " -Djavax.net.ssl.trustStoreType=PKCS12",
			    name, given, *given ? " " : "");
}

const char *const *trust_env(const struct trust *trust, struct run_config *config,
			     const char *const *env)
{
	static const char *const names[] = {
		"SSL_CERT_FILE",
		"REQUESTS_CA_BUNDLE",
		"NODE_EXTRA_CA_CERTS",
		"CURL_CA_BUNDLE",
		"GIT_SSL_CAINFO",
		"AWS_CA_BUNDLE",
		"PIP_CERT",
		"CARGO_HTTP_CAINFO",
		"DENO_CERT",
		"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
		"NPM_CONFIG_CAFILE",
	};
	const char **all = arena_alloc(&config->arena,
				       (ARRAY_LEN(names) + count_of(env) + 2) * sizeof(*all));
	size_t count = 0;

	if (trust->bundle.len == 0)
		return env;
	for (; count < ARRAY_LEN(names); count++)
		all[count] = arena_printf(&config->arena, "%s=" BUNDLE, names[count]);
	for (size_t i = 0; env && env[i]; i++)
		all[count++] = env[i];
	if (trust->keystore.len > 0)
		all[count++] = java_options(config, env);
	all[count] = NULL;
	return all;
}
