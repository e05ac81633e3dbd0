/* SPDX-License-Identifier: MIT */
/* Unix and TCP listeners. */
#include "cmd/listen.h"

#include <errno.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pwd.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "sys/pass.h"

static int read_mode(const char *text, mode_t *ret_mode, struct err *err)
{
	mode_t mode = 0;

	*ret_mode = 0600;
	if (!text)
		return 0;
	for (const char *c = text; *c; c++) {
		if (*c < '0' || *c > '7' || strlen(text) > 4)
			return err_say(err, EINVAL, "'%.20s' is not a mode such as 0660", text);
		mode = mode * 8 + (mode_t)(*c - '0');
	}
	if (!*text || mode > 0777)
		return err_say(err, EINVAL, "'%.20s' is not a mode such as 0660", text);
	*ret_mode = mode;
	return 0;
}

/* A name or a number; -1 for none. */
static int read_id(const char *text, bool is_group, uint32_t *ret_id)
{
	struct passwd *user = is_group ? NULL : getpwnam(text);
	struct group *group = is_group ? getgrnam(text) : NULL;
	char *end;
	unsigned long id;

	if (user || group) {
		*ret_id = user ? user->pw_uid : group->gr_gid;
		return 0;
	}
	errno = 0;
	id = strtoul(text, &end, 10);
	if (!*text || *end || text[0] < '0' || text[0] > '9' || errno || id >= UINT32_MAX)
		return -ENOENT;
	*ret_id = (uint32_t)id;
	return 0;
}

int listen_find_user(const char *text, uid_t *ret_uid)
{
	return read_id(text, false, ret_uid);
}

/* Leaves alone what the text does not name. */
static int read_owner(const char *text, uid_t *ret_uid, gid_t *ret_gid, struct err *err)
{
	char user[64];
	const char *colon = text ? strchr(text, ':') : NULL;
	size_t len = colon ? (size_t)(colon - text) : text ? strlen(text) : 0;

	if (!text)
		return 0;
	snprintf(user, sizeof(user), "%.*s", (int)(len < 60 ? len : 60), text);
	if ((len > 0 && read_id(user, false, ret_uid) < 0) ||
	    (colon && read_id(colon + 1, true, ret_gid) < 0) || (len == 0 && !colon))
		return err_say(err, EINVAL, "'%.60s' is not USER[:GROUP] of this system", text);
	return 0;
}

/* Removes a socket that nobody listens on any more. */
static int clear_path(const struct sockaddr_un *address, struct err *err)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (lstat(address->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : err_set(err, errno, "look at '%s'", address->sun_path);
	if (!S_ISSOCK(st.st_mode))
		return err_say(err, EEXIST, "'%s' exists and is no socket", address->sun_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(err, errno, "create a socket");
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
	    errno != ECONNREFUSED)
		return err_say(err, EADDRINUSE, "somebody listens on '%s' already",
			       address->sun_path);
	if (unlink(address->sun_path) < 0)
		return err_set(err, errno, "remove '%s'", address->sun_path);
	return 0;
}

static int open_unix(const struct socket_config *config, int type, int *ret_fd, struct err *err)
{
	_cleanup_close_ int fd = -1;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	mode_t mode, saved;
	uid_t uid = (uid_t)-1;
	gid_t gid = (gid_t)-1;
	int r = read_mode(config->mode, &mode, err);

	if (r == 0)
		r = read_owner(config->owner, &uid, &gid, err);
	if (r == 0 && strlen(config->path) >= sizeof(address.sun_path))
		r = err_say(err, ENAMETOOLONG, "a socket's path has at most %zu bytes",
			    sizeof(address.sun_path) - 1);
	if (r < 0)
		return r;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", config->path);
	r = clear_path(&address, err);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(err, errno, "create a socket");
	pass_refuse(fd);
	saved = umask(0777); /* nobody's, until it is whose it should be */
	r = bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
	umask(saved);
	if (r < 0)
		return err_set(err, -r, "make the socket '%s'", config->path);
	if (chown(config->path, uid, gid) < 0 || chmod(config->path, mode) < 0 ||
	    listen(fd, SOMAXCONN) < 0) {
		r = err_set(err, errno, "set up the socket '%s'", config->path);
		unlink(config->path);
		return r;
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

int listen_unix(const struct socket_config *config, int *ret_fd, struct err *err)
{
	return open_unix(config, SOCK_STREAM, ret_fd, err);
}

int listen_unix_packets(const struct socket_config *config, int *ret_fd, struct err *err)
{
	return open_unix(config, SOCK_SEQPACKET, ret_fd, err);
}

/* freeaddrinfo is owed on success. */
static int find_address(const char *address, struct addrinfo **ret_found, struct err *err)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
					.ai_socktype = SOCK_STREAM };
	struct arena arena = { NULL };
	const char *host;
	char service[8];
	uint16_t port = 0;
	int r = url_parse_address(address, &arena, &host, &port, err);

	if (r == 0) {
		snprintf(service, sizeof(service), "%u", port);
		if (getaddrinfo(host, service, &hints, ret_found) != 0)
			r = err_say(err, EINVAL, "'%.100s' is not an address", host);
	}
	arena_fini(&arena);
	return r;
}

static void share_port(int fd, int beside_fd, int is_on)
{
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &is_on, sizeof(is_on));
	setsockopt(beside_fd, SOL_SOCKET, SO_REUSEPORT, &is_on, sizeof(is_on));
}

static int open_tcp(const struct addrinfo *place, int beside_fd, int *ret_fd)
{
	_cleanup_close_ int fd = socket(place->ai_family,
					SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1, r = 0;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0)
		return -errno;
	if (beside_fd >= 0)
		share_port(fd, beside_fd, 1);
	if (bind(fd, place->ai_addr, place->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0)
		r = -errno;
	if (beside_fd >= 0)
		share_port(fd, beside_fd, 0);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

int listen_tcp_beside(const char *address, int beside_fd, int *ret_fd, struct err *err)
{
	struct addrinfo *found = NULL;
	int r = find_address(address, &found, err);

	if (r < 0 || !found)
		return r;
	r = open_tcp(found, beside_fd, ret_fd);
	freeaddrinfo(found);
	return r < 0 ? err_set(err, -r, "listen on %.100s", address) : 0;
}

int listen_tcp(const char *address, int *ret_fd, struct err *err)
{
	return listen_tcp_beside(address, -1, ret_fd, err);
}

/* ---- where a listener is ---- */

union place {
	struct sockaddr any;
	struct sockaddr_un local;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static bool find_place(int fd, union place *ret_place)
{
	socklen_t len = sizeof(*ret_place);

	*ret_place = (union place){ .local.sun_family = AF_UNSPEC };
	return getsockname(fd, &ret_place->any, &len) == 0;
}

/* By its name, or as the same file under two names. */
bool listen_is_at_path(int fd, const char *path)
{
	union place place;
	struct stat ours, theirs;

	if (!find_place(fd, &place) || place.any.sa_family != AF_UNIX || !place.local.sun_path[0])
		return false;
	return strcmp(place.local.sun_path, path) == 0 ||
	       (lstat(place.local.sun_path, &ours) == 0 && lstat(path, &theirs) == 0 &&
		ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino);
}

static bool is_same(const union place *a, const union place *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	if (a->any.sa_family == AF_INET)
		return a->v4.sin_port == b->v4.sin_port &&
		       a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
	return a->any.sa_family == AF_INET6 && a->v6.sin6_port == b->v6.sin6_port &&
	       a->v6.sin6_scope_id == b->v6.sin6_scope_id &&
	       memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr)) == 0;
}

bool listen_is_at_address(int fd, const char *address)
{
	union place place, wanted = { .local.sun_family = AF_UNSPEC };
	struct addrinfo *found = NULL;
	struct err ignored;

	if (!find_place(fd, &place) || find_address(address, &found, &ignored) < 0 || !found)
		return false;
	if (found->ai_addrlen <= sizeof(wanted))
		memcpy(&wanted, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return is_same(&place, &wanted);
}

void listen_remove_dead(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct err ignored;
	int r;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	r = clear_path(&address, &ignored);
	(void)r; /* somebody listens there */
}
