/* SPDX-License-Identifier: MIT */
/* A store that another process has: it does what all have to do. */
#include "store/desk.h"

#include <sys/socket.h>

#include "store/conformance.h"
#include "store/lent.h"

/* Both ends are in one loop here; each test has a pair of its own. */
static struct {
	struct loop *loop;
	struct store *real;
	struct lender *lender;
} pair;

static void on_news(struct store *store, enum store_news news, const char *about, uint64_t now_ms)
{
	(void)store;
	(void)now_ms;
	if (pair.lender)
		lender_tell(pair.lender, news, about);
}

static void on_over(void *owner)
{
	(void)owner;
	pair.lender = NULL;
}

/* What was there before it is closed: its borrower is. */
static void drop(void)
{
	if (!pair.real)
		return;
	lender_free(pair.lender);
	pair.real->ops->close(pair.real);
	pair.real = NULL;
	pair.lender = NULL;
}

static struct store *open_lent(struct loop *loop)
{
	struct store *lent;
	int fds[2];

	drop();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0)
		return NULL;
	pair.loop = loop;
	pair.real = store_local_new(loop, NULL);
	pair.real->on_news = on_news;
	pair.lender = lender_new(pair.real, fds[1]);
	lender_set_on_over(pair.lender, on_over, NULL);
	lent = store_lent_new(loop, fds[0]);
	store_lent_go(lent, 0);
	return lent;
}

int main(void)
{
	static const struct backend backend = { .name = "lent",
						.open = open_lent,
						.has_own_clock = true };

	return conformance_run(&backend);
}
