/* SPDX-License-Identifier: MIT */
/* What the gate gives up: each attempt works before, as a control, and fails after. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "unit.h"

#include "gate/confine.h"

/* Made before, as the gate's own descriptors are. */
static int spare_socket;

static bool opens_a_file(void)
{
	return open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0;
}

static bool makes_a_socket(void)
{
	return socket(AF_INET, SOCK_STREAM, 0) >= 0;
}

static bool makes_a_pair(void)
{
	int pair[2];

	return socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0;
}

/* To disconnect a datagram socket always works. */
static bool connects(void)
{
	struct sockaddr nowhere = { .sa_family = AF_UNSPEC };

	return connect(spare_socket, &nowhere, sizeof(nowhere)) == 0;
}

static bool executes(void)
{
	char name[] = "true", *const argv[] = { name, NULL };
	pid_t pid = vfork();
	int status = 1;

	if (pid == 0) {
		execv("/bin/true", argv);
		_exit(1);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static bool forks(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid > 0 && waitpid(pid, NULL, 0) == pid;
}

static bool signals(void)
{
	return kill(getpid(), 0) == 0;
}

static bool maps_code(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
	       MAP_FAILED;
}

static bool removes_a_file(void)
{
	return unlink("/nonexistent") == 0 || errno == ENOENT;
}

static bool reads_another_s_memory(void)
{
	char byte;
	int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);

	return fd >= 0 && pread(fd, &byte, 1, (off_t)&spare_socket) == 1;
}

/* What it still has to do. */
static bool allocates(void)
{
	char *memory = malloc(1 << 20);
	bool is_there = memory != NULL;

	free(memory);
	return is_there;
}

static const struct {
	const char *name;
	bool (*works)(void);
	bool is_kept;
} attempts[] = {
	{ "open a file", opens_a_file, false },
	{ "make a socket", makes_a_socket, false },
	{ "make a pair of sockets", makes_a_pair, false },
	{ "connect a socket", connects, false },
	{ "execute a program", executes, false },
	{ "fork", forks, false },
	{ "signal a process", signals, false },
	{ "map code", maps_code, false },
	{ "remove a file", removes_a_file, false },
	{ "read memory by its file", reads_another_s_memory, false },
	{ "allocate memory", allocates, true },
};

/* In a process of its own, because there is no way back. 0: as it should be. */
static int try_in_child(size_t i)
{
	pid_t pid = fork();
	int status = -1;
	struct err err;

	if (pid == 0) {
		if (!attempts[i].works())
			_exit(2); /* the control */
		if (confine(&err) < 0)
			_exit(3);
		_exit(attempts[i].works() == attempts[i].is_kept ? 0 : 4);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void what_it_gives_up_is_gone(void **state)
{
	(void)state;
#if defined(__SANITIZE_ADDRESS__)
	skip(); /* the filter is not loaded there: a sanitizer could not report */
#endif
	spare_socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	for (size_t i = 0; i < ARRAY_LEN(attempts); i++) {
		int status = try_in_child(i);

		if (status)
			fail_msg("%s: %d (2: the control fails, 3: not confined, 4: it works)",
				 attempts[i].name, status);
	}
	close(spare_socket);
}

int main(void)
{
	RUN_TESTS(TEST(what_it_gives_up_is_gone));
}
