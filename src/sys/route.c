/* SPDX-License-Identifier: MIT */
/* One route per family, into the table of local addresses. */
#include "sys/route.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "sys/netlink.h"

#define LOOPBACK_INDEX 1 /* in every network namespace */

static int add_local(unsigned char family)
{
	const struct rtmsg route = {
		.rtm_family = family,
		.rtm_table = RT_TABLE_LOCAL,
		.rtm_protocol = RTPROT_BOOT,
		.rtm_scope = RT_SCOPE_HOST,
		.rtm_type = RTN_LOCAL,
	};
	struct netlink_batch batch;

	netlink_init(&batch);
	netlink_begin(&batch, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &route,
		      sizeof(route));
	netlink_put_u32(&batch, RTA_OIF, LOOPBACK_INDEX);
	return netlink_talk(NETLINK_ROUTE, &batch, 1);
}

/* The kernel has no IPv6 (ipv6.disable=1), or none on this interface (disable_ipv6). */
static bool says_no_v6(int r)
{
	return r == -EAFNOSUPPORT || r == -EOPNOTSUPP || r == -ENODEV || r == -EACCES;
}

int route_all_local(bool *ret_has_v6)
{
	int r = add_local(AF_INET);

	*ret_has_v6 = false;
	if (r < 0)
		return r;
	r = add_local(AF_INET6);
	if (says_no_v6(r))
		return 0;
	*ret_has_v6 = r == 0;
	return r;
}
