/* SPDX-License-Identifier: MIT */
/* Certificates as Java wants them: a PKCS#12 file (RFC 7292). */
#ifndef CMD_KEYSTORE_H
#define CMD_KEYSTORE_H

#include "base/buf.h"

/*
 * Adds a file with every certificate of a PEM bundle, each marked as one to be trusted for
 * anything, which is what JDKs want to see. It has no password: there is nothing secret in it,
 * and one that is given by habit is not looked at. What is no certificate in the bundle is
 * left out; the certificates themselves are not looked into.
 */
void keystore_format(struct bytes pem, struct buf *out);

#endif
