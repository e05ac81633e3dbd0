/* SPDX-License-Identifier: MIT */
/* Who may come to a shared keeper, and where: its sockets, and what is behind each. */
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "cmd/listen.h"
#include "cmd/shared.h"
#include "sys/pass.h"

/* ---- who may start runs ---- */

/* SANDBOX_ENABLED: whether anybody but ourselves may. */
static bool is_enabled(void)
{
	const char *value = getenv("SANDBOX_ENABLED");

	return value && (strcmp(value, "1") == 0 || strcmp(value, "true") == 0);
}

/* Not when one comes: where users are kept elsewhere, to look one up may take long. */
static int find_user(const char *name, struct control_user *ret_user)
{
	int r = listen_find_user(name, &ret_user->uid);
	const struct passwd *entry = r < 0 ? NULL : getpwuid(ret_user->uid);

	if (entry)
		snprintf(ret_user->account, sizeof(ret_user->account), "%s", entry->pw_name);
	else
		snprintf(ret_user->account, sizeof(ret_user->account), "%u", ret_user->uid);
	return r;
}

/* What lets them: users of this machine, runs of others, and whoever has a token for a gate. */
static int check_others(const struct shared_config *config, struct err *err)
{
	const char *what = config->listen.host              ? "--listen"
			   : config->control_user_count > 0 ? "--control-user"
			   : config->token_keys.count > 0   ? "--token-key"
							    : NULL;

	if (!what || is_enabled())
		return 0;
	return err_say(err, EPERM,
		       "%s would let others start runs, and that is off: "
		       "SANDBOX_ENABLED=1 in the environment turns it on",
		       what);
}

int shared_list_users(const struct shared_config *config, struct shared_users *ret_users,
		      struct err *err)
{
	int r = check_others(config, err);

	ret_users->count = 0;
	if (r < 0)
		return r;
	for (; ret_users->count < config->control_user_count; ret_users->count++) {
		const char *name = config->control_users[ret_users->count];

		if (find_user(name, &ret_users->users[ret_users->count]) < 0)
			return err_say(err, ENOENT, "--control-user: there is no user '%.60s'",
				       name);
	}
	return 0;
}

int shared_find_users(struct shared *shared, const struct shared_config *config, struct err *err)
{
	return shared_list_users(config, &shared->users, err);
}

/* ---- listening ---- */

/* ADDRESS:PORT; "" where there is none. */
static void format_address(const struct shared_endpoint *endpoint, char ret_address[512])
{
	ret_address[0] = '\0';
	if (endpoint->host)
		snprintf(ret_address, 512, strchr(endpoint->host, ':') ? "[%s]:%u" : "%s:%u",
			 endpoint->host, endpoint->port);
}

/* `beside_fd` is what the keeper before us has instead, or -1. */
static int open_own(const struct shared_endpoint *endpoint, int type, const char *mode,
		    int beside_fd, int *ret_fd, struct err *err)
{
	const struct socket_config place = { .path = endpoint->path, .mode = mode };
	char address[512];

	if (endpoint->path)
		return type == SOCK_SEQPACKET ? listen_unix_packets(&place, ret_fd, err)
					      : listen_unix(&place, ret_fd, err);
	if (!endpoint->host)
		return 0;
	format_address(endpoint, address);
	return listen_tcp_beside(address, beside_fd, ret_fd, err);
}

/* Whether a socket of the keeper before us is where ours is to be. */
static bool is_in_place(const struct shared *shared, int fd, const struct shared_endpoint *endpoint)
{
	char address[512];

	if (endpoint->path) /* we have come in by the path of the control socket */
		return endpoint->path == shared->control_path ||
		       listen_is_at_path(fd, endpoint->path);
	format_address(endpoint, address);
	return endpoint->host && listen_is_at_address(fd, address);
}

static void note_own(struct shared *shared, const char *path, bool is_given)
{
	if (shared->own_socket_count == ARRAY_LEN(shared->own_sockets))
		return;
	snprintf(shared->own_sockets[shared->own_socket_count].path, STATE_PATH_MAX, "%s", path);
	shared->own_sockets[shared->own_socket_count++].is_given = is_given;
}

/*
 * A socket that was given to us, or one of our own; -1 where none is asked for. What the service
 * manager has opened counts over what we are told, and stays there for the next one. What a keeper
 * before us has opened is taken where it is the same; every such, and our own, is removed at the
 * end.
 */
static int open_listener(struct shared *shared, const char *name, int type,
			 const struct shared_endpoint *endpoint, const char *mode, int *ret_fd,
			 struct err *err)
{
	bool is_managed = listen_fds_is_managed(&shared->given, name);
	_cleanup_close_ int given_fd = -1;
	int r = listen_fds_take(&shared->given, name, 0, type, &given_fd, err);
	bool is_taken = given_fd >= 0 && (is_managed || is_in_place(shared, given_fd, endpoint));

	if (is_taken) {
		*ret_fd = take_fd(&given_fd);
		pass_refuse(*ret_fd);
	} else if (r == 0) {
		r = open_own(endpoint, type, mode, given_fd, ret_fd, err);
	}
	if (r == 0 && !is_managed && endpoint->path)
		note_own(shared, endpoint->path, is_taken);
	return r;
}

int shared_open_control(struct shared *shared, const struct shared_config *config, struct err *err)
{
	char mode[16];
	struct shared_endpoint endpoint = config->control;
	struct control_config control = {
		.listener_fd = -1,
		.users = shared->users.users,
		.user_count = shared->users.count,
		.audit = shared->audit,
		.on_drain = shared_on_drain_asked,
		.on_hand_over = shared_on_hand_over,
		.owner = shared,
	};
	int r = 0;

	snprintf(mode, sizeof(mode), "%04o", (unsigned int)config->control_mode);
	endpoint.path = shared->control_path;
	if (!config->control.path)
		r = state_make_directory(shared->control_path, err);
	if (r == 0)
		r = open_listener(shared, "control", SOCK_SEQPACKET, &endpoint, mode,
				  &control.listener_fd, err);
	return r < 0 ? r : control_new(&shared->keeper, &control, &shared->control, err);
}

/* ---- the admin endpoint ---- */

static void write_metrics(void *owner, struct buf *out)
{
	struct shared *shared = owner;
	struct metrics *metrics = &shared->keeper.metrics;

	metrics_look_at_process(metrics);
	metrics->notices_dropped = shared->notices.dropped_total;
	metrics->store_reachable = shared->keeper.store->is_reachable;
	metrics->draining = shared->keeper.is_draining;
	metrics_format(metrics, out);
}

static bool is_ready(void *owner, struct json *reasons)
{
	const struct shared *shared = owner;
	const struct keeper *keeper = &shared->keeper;
	bool is_handing_over = shared->handover || shared->has_lent;

	if (!keeper->store->is_reachable)
		json_text(reasons, "store", keeper->store->fault);
	if (keeper->is_audit_failing)
		json_text(reasons, "audit", "the audit log cannot be written");
	if (keeper->is_draining)
		json_text(reasons, "draining", "no more runs are taken");
	if (is_handing_over)
		json_text(reasons, "handing_over", "another keeper is about to take this place");
	return keeper->store->is_reachable && !keeper->is_audit_failing && !keeper->is_draining &&
	       !is_handing_over;
}

int shared_open_admin(struct shared *shared, const struct shared_config *config, struct err *err)
{
	const struct admin_source source = { shared, write_metrics, is_ready };
	int fd = -1;
	int r = open_listener(shared, "admin", SOCK_STREAM, &config->admin, "0600", &fd, err);

	if (r < 0 || fd < 0)
		return r;
	r = admin_open(&shared->admin, &shared->keeper.loop, &source, fd);
	return r < 0 ? err_set(err, -r, "watch the admin socket") : 0;
}

/* ---- other machines ---- */

static int read_service(const struct shared_config *config, struct tls_service **ret_service,
			struct err *err)
{
	struct secret *key;
	int r = secret_open(config->cert_key, &key, err);

	if (r < 0)
		return r;
	r = tls_service_new(config->cert, secret_get(key), TLS_ALPN_WARDER, ret_service, err);
	secret_free(key);
	return r;
}

int shared_open_service(struct shared *shared, const struct shared_config *config, struct err *err)
{
	return config->listen.host ? read_service(config, &shared->service, err) : 0;
}

int shared_open_remote(struct shared *shared, const struct shared_config *config, struct err *err)
{
	int fd = -1, r = 0;

	if (config->listen.host)
		r = open_listener(shared, "listen", SOCK_STREAM, &config->listen, NULL, &fd, err);
	return r < 0 || fd < 0 ? r
			       : remote_new(&shared->keeper, fd, shared->service, shared->audit,
					    &shared->remote, err);
}

int shared_renew_service(const struct shared *shared, const struct shared_config *config,
			 struct tls_service **ret_service, struct err *err)
{
	*ret_service = NULL;
	return shared->remote && config->cert ? read_service(config, ret_service, err) : 0;
}

void shared_set_service(struct shared *shared, struct tls_service *service)
{
	if (!service)
		return;
	remote_set_service(shared->remote, service);
	tls_service_free(shared->service);
	shared->service = service;
}

/* ---- where it is found, and left ---- */

int shared_find_control(struct shared *shared, const struct shared_config *config, struct err *err)
{
	if (!config->control.path)
		return state_control_path(shared->control_path, err);
	snprintf(shared->control_path, sizeof(shared->control_path), "%s", config->control.path);
	return 0;
}

/* Not those of a keeper that was to be replaced and stays, or of the one that has replaced us. */
void shared_remove_sockets(const struct shared *shared)
{
	if (shared->is_handed_over)
		return;
	for (size_t i = 0; i < shared->own_socket_count; i++)
		if (shared->has_place || !shared->own_sockets[i].is_given)
			unlink(shared->own_sockets[i].path);
}

void shared_leave_sockets(const struct shared *shared)
{
	for (size_t i = 0; i < shared->own_socket_count; i++)
		listen_remove_dead(shared->own_sockets[i].path);
}
