/* SPDX-License-Identifier: MIT */
/* The bundle of a run. */
#include "cmd/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "cmd/keystore.h"
#include "cmd/trust_places.h"

#define BUNDLE          "/etc/warder/ca.pem" /* in the sandbox, as the next */
#define KEYSTORE        "/etc/warder/cacerts.p12"
#define BUNDLE_MAX      (16 << 20)
#define CERTIFICATE_MAX 4096 /* of the run's own */

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

static int read_host_bundle(struct buf *bundle)
{
	int r = 0;

	/* A host without one: the run's own will do. */
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(places); i++)
		r = add_file(bundle, places[i]);
	if (r < 0)
		return r;
	if (bundle->len > 0 && bundle->data[bundle->len - 1] != '\n')
		buf_add_text(bundle, "\n");
	return 0;
}

/* The gate tells its certificate as soon as it has made it. */
static int complete(struct trust *trust)
{
	char pem[CERTIFICATE_MAX];
	ssize_t n;

	if (trust->is_complete)
		return 0;
	do {
		n = recv(trust->gate_fd, pem, sizeof(pem), 0);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : -EPIPE; /* it has ended */
	trust->is_complete = true;
	return buf_add(&trust->bundle, pem, (size_t)n) < (size_t)n ? -EFBIG : 0;
}

static int make_bundle(void *owner, const char **ret_content, uint64_t *ret_size)
{
	struct trust *trust = owner;
	int r = complete(trust);

	*ret_content = trust->bundle.data;
	*ret_size = trust->bundle.len;
	return r;
}

/* Java knows neither the bundle nor the variables. */
static int make_keystore(void *owner, const char **ret_content, uint64_t *ret_size)
{
	struct trust *trust = owner;
	int r = complete(trust);

	if (r < 0)
		return r;
	keystore_format((struct bytes){ trust->bundle.data, trust->bundle.len }, &trust->keystore);
	*ret_content = trust->keystore.data;
	*ret_size = trust->keystore.len;
	return 0;
}

static int add_content(struct trust *trust, struct run_config *config, const char *dest,
		       int (*make)(void *, const char **, uint64_t *), struct err *err)
{
	/* A certificate is no larger for Java than in base64. */
	const struct warder_mount mount = {
		.mode = WARDER_MOUNT_FILE,
		.dest = dest,
		.size_bytes = trust->bundle.len + CERTIFICATE_MAX,
		.make = make,
		.owner = trust,
	};

	return run_config_add_mount(config, &mount, err);
}

/* Where there is a link it leads to another of these places, and is left as it is. */
static int cover(struct run_config *config, const char *file, const char *const *paths,
		 size_t count, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		const struct warder_mount mount = { .mode = WARDER_MOUNT_COVER,
						    .source = file,
						    .dest = paths[i] };

		r = run_config_add_mount(config, &mount, err);
	}
	return r;
}

static int trust_java(struct trust *trust, struct run_config *config, struct err *err)
{
	struct trust_places java;
	int r;

	trust->has_java = trust_places_java(config, &java);
	if (!trust->has_java)
		return 0;
	r = add_content(trust, config, KEYSTORE, make_keystore, err);
	return r < 0 ? r : cover(config, KEYSTORE, java.paths, java.count, err);
}

int trust_open(struct trust *trust, int gate_fd, struct run_config *config, struct err *err)
{
	struct trust_places python;
	int r;

	buf_init(&trust->bundle, BUNDLE_MAX);
	buf_init(&trust->keystore, BUNDLE_MAX);
	trust->gate_fd = gate_fd;
	trust->is_open = true;
	r = read_host_bundle(&trust->bundle);
	if (r < 0)
		return err_set(err, -r, "read the host's bundle of certificates");
	r = add_content(trust, config, BUNDLE, make_bundle, err);
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

	if (!trust->is_open)
		return env;
	for (; count < ARRAY_LEN(names); count++)
		all[count] = arena_printf(&config->arena, "%s=" BUNDLE, names[count]);
	for (size_t i = 0; env && env[i]; i++)
		all[count++] = env[i];
	if (trust->has_java)
		all[count++] = java_options(config, env);
	all[count] = NULL;
	return all;
}
