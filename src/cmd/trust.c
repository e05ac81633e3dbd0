/* SPDX-License-Identifier: MIT */
/* The bundle of a run. */
#include "cmd/trust.h"

#include <errno.h>
#include <fcntl.h>

#define BUNDLE     "/etc/warder/ca.pem" /* in the sandbox */
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

static int cover(struct run_config *config, const char *path, struct err *err)
{
	const struct warder_mount mount = { WARDER_MOUNT_COVER, BUNDLE, path, 0 };

	return run_config_add_mount(config, &mount, err);
}

int trust_open(struct trust *trust, struct bytes pem, struct run_config *config, struct err *err)
{
	struct warder_mount mount = { .mode = WARDER_MOUNT_FILE, .dest = BUNDLE };
	int r;

	buf_init(&trust->bundle, BUNDLE_MAX);
	r = make_bundle(&trust->bundle, pem);
	if (r < 0)
		return err_set(err, -r, "read the host's bundle of certificates");
	mount.source = trust->bundle.data;
	mount.size_bytes = trust->bundle.len;
	r = run_config_add_mount(config, &mount, err);
	/* A link there leads to another of these places, and is left as it is. */
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(places); i++)
		r = cover(config, places[i], err);
	return r;
}

void trust_close(struct trust *trust)
{
	buf_fini(&trust->bundle);
}

const char *const *trust_env(void)
{
	static const char *const env[] = {
		"SSL_CERT_FILE=" BUNDLE,
		"REQUESTS_CA_BUNDLE=" BUNDLE,
		"NODE_EXTRA_CA_CERTS=" BUNDLE,
		"CURL_CA_BUNDLE=" BUNDLE,
		"GIT_SSL_CAINFO=" BUNDLE,
		"AWS_CA_BUNDLE=" BUNDLE,
		"PIP_CERT=" BUNDLE,
		"CARGO_HTTP_CAINFO=" BUNDLE,
		"DENO_CERT=" BUNDLE,
		"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=" BUNDLE,
		"NPM_CONFIG_CAFILE=" BUNDLE,
		NULL,
	};

	return env;
}
