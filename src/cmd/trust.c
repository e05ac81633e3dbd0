/* SPDX-License-Identifier: MIT */
/* The bundle of a run. */
#include "cmd/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sys/fd.h"

#define BUNDLE "/etc/warder/ca.pem" /* in the sandbox */

/* Where systems keep theirs; the first that exists is the host's. */
static const char *const places[] = {
	"/etc/ssl/certs/ca-certificates.crt", /* Debian, Alpine, Arch */
	"/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, RHEL */
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/ca-bundle.pem", /* SUSE */
	"/etc/ssl/cert.pem",
};

static int copy_file(int from, int to)
{
	char data[65536];
	ssize_t n;
	int r = 0;

	while (r == 0 && (n = read(from, data, sizeof(data))) != 0)
		r = n < 0 ? -errno : fd_write_all(to, data, (size_t)n);
	return r;
}

static int copy_host_bundle(int to)
{
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		_cleanup_close_ int from = open(places[i], O_RDONLY | O_CLOEXEC);

		if (from >= 0)
			return copy_file(from, to);
	}
	return 0; /* a host without one: the run's own will do */
}

static int write_bundle(struct trust *trust, struct bytes pem)
{
	_cleanup_close_ int fd = -1;
	int r;

	snprintf(trust->path, sizeof(trust->path), "/tmp/warder-ca-XXXXXX");
	fd = mkostemp(trust->path, O_CLOEXEC);
	if (fd < 0) {
		trust->path[0] = '\0';
		return -errno;
	}
	r = copy_host_bundle(fd);
	if (r == 0)
		r = fd_write_all(fd, pem.data, pem.len);
	if (r == 0 && fchmod(fd, 0444) < 0)
		r = -errno;
	return r;
}

int trust_open(struct trust *trust, struct bytes pem, struct run_config *config, struct err *err)
{
	int r = write_bundle(trust, pem);

	if (r < 0)
		return err_set(err, -r, "write the sandbox's bundle of certificates");
	r = run_config_add_mount(config, WARDER_MOUNT_RO, trust->path, BUNDLE, err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(places); i++) {
		struct stat st;

		/* A link there leads to another of these places. */
		if (lstat(places[i], &st) == 0 && S_ISREG(st.st_mode))
			r = run_config_add_mount(config, WARDER_MOUNT_RO, trust->path, places[i],
						 err);
	}
	return r;
}

void trust_close(struct trust *trust)
{
	if (trust->path[0])
		unlink(trust->path);
	trust->path[0] = '\0';
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
