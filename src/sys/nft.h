/* SPDX-License-Identifier: MIT */
/* nftables by netlink. */
#ifndef SYS_NFT_H
#define SYS_NFT_H

#include "base/attr.h"

/*
 * Loads a table with a NAT chain at the output hook into the current network
 * namespace: 0 when the kernel can do it, or -errno.
 */
int nft_try_nat(void) must_check;

#endif
