/* SPDX-License-Identifier: MIT */
/*
 * Certificates as strict clients want them (RFC 5280): key identifiers on both, critical
 * constraints, a usage, and names nowhere but in subjectAltName. Extensions are made of structures
 * and never of text, in which a name could say more than a name.
 */
#include "tls/mint.h"

#include <errno.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "net/resolve.h"

#define SERIAL_BITS     127 /* positive, and more than can be guessed or met twice */
#define COMMON_NAME_MAX 64  /* RFC 5280, appendix A */

EVP_PKEY *mint_key(void)
{
	return EVP_EC_gen("P-256");
}

static bool set_serial(X509 *certificate)
{
	BIGNUM *serial = BN_new();
	bool is_set = serial && BN_rand(serial, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) &&
		      BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(certificate));

	BN_free(serial);
	return is_set;
}

static bool add(X509 *certificate, int nid, void *value, bool is_critical)
{
	return value &&
	       X509_add1_ext_i2d(certificate, nid, value, is_critical, X509V3_ADD_APPEND) == 1;
}

static bool add_constraints(X509 *certificate, bool is_authority)
{
	BASIC_CONSTRAINTS *value = BASIC_CONSTRAINTS_new();
	bool is_added = value != NULL;

	if (is_added && is_authority) {
		value->ca = 0xff;
		value->pathlen = ASN1_INTEGER_new(); /* 0: it signs leaves only */
		is_added = value->pathlen && ASN1_INTEGER_set(value->pathlen, 0);
	}
	is_added = is_added && add(certificate, NID_basic_constraints, value, true);
	BASIC_CONSTRAINTS_free(value);
	return is_added;
}

static bool add_usage(X509 *certificate, bool is_authority)
{
	ASN1_BIT_STRING *usage = ASN1_BIT_STRING_new();
	/* By number, as RFC 5280, section 4.2.1.3, counts: digitalSignature 0, keyCertSign 5. */
	bool is_added = usage && ASN1_BIT_STRING_set_bit(usage, is_authority ? 5 : 0, 1) &&
			add(certificate, NID_key_usage, usage, true);

	ASN1_BIT_STRING_free(usage);
	return is_added;
}

static bool add_server_usage(X509 *certificate)
{
	EXTENDED_KEY_USAGE *usage = EXTENDED_KEY_USAGE_new();
	bool is_added = usage && sk_ASN1_OBJECT_push(usage, OBJ_nid2obj(NID_server_auth)) > 0 &&
			add(certificate, NID_ext_key_usage, usage, false);

	EXTENDED_KEY_USAGE_free(usage);
	return is_added;
}

/* RFC 5280, section 4.2.1.2: the digest of the public key names it. */
static ASN1_OCTET_STRING *key_id(const X509 *certificate)
{
	ASN1_OCTET_STRING *id = ASN1_OCTET_STRING_new();
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int len;

	if (id && X509_pubkey_digest(certificate, EVP_sha1(), digest, &len) &&
	    ASN1_OCTET_STRING_set(id, digest, (int)len))
		return id;
	ASN1_OCTET_STRING_free(id);
	return NULL;
}

static bool add_key_id(X509 *certificate)
{
	ASN1_OCTET_STRING *id = key_id(certificate);
	bool is_added = add(certificate, NID_subject_key_identifier, id, false);

	ASN1_OCTET_STRING_free(id);
	return is_added;
}

static bool add_issuer_id(X509 *certificate, const X509 *issuer)
{
	AUTHORITY_KEYID *value = AUTHORITY_KEYID_new();
	bool is_added = value && (value->keyid = key_id(issuer)) &&
			add(certificate, NID_authority_key_identifier, value, false);

	AUTHORITY_KEYID_free(value);
	return is_added;
}

/* ---- names ---- */

/* Nothing in it that a client could take for anything but letters of a name. */
static bool is_host_name(const char *name)
{
	static const char
		allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	size_t len = strlen(name);

	return len > 0 && len <= RESOLVE_NAME_MAX && strspn(name, allowed) == len &&
	       name[0] != '.' && name[len - 1] != '.' && !strstr(name, "..");
}

/* NULL: none, or no memory. */
static GENERAL_NAME *general_name(const char *name)
{
	unsigned char address[16];
	size_t len = resolve_literal(name, address);
	const void *bytes = len > 0 ? (const void *)address : name;
	GENERAL_NAME *made = GENERAL_NAME_new();
	/* IA5String and OCTET STRING are one type to OpenSSL. */
	ASN1_STRING *value = ASN1_STRING_type_new(len > 0 ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING);

	if (made && value && ASN1_STRING_set(value, bytes, (int)(len > 0 ? len : strlen(name)))) {
		GENERAL_NAME_set0_value(made, len > 0 ? GEN_IPADD : GEN_DNS, value);
		return made;
	}
	GENERAL_NAME_free(made);
	ASN1_STRING_free(value);
	return NULL;
}

static bool add_name(X509 *certificate, const char *name)
{
	GENERAL_NAMES *names = GENERAL_NAMES_new();
	GENERAL_NAME *one = general_name(name);
	bool is_added = names && one && sk_GENERAL_NAME_push(names, one) > 0;

	if (!is_added)
		GENERAL_NAME_free(one);
	is_added = is_added && add(certificate, NID_subject_alt_name, names, false);
	GENERAL_NAMES_free(names);
	return is_added;
}

static bool set_subject(X509 *certificate, const char *field, const char *text)
{
	return X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), field, MBSTRING_ASC,
					  (const unsigned char *)text, -1, -1, 0) == 1;
}

/* ---- certificates ---- */

static bool set_times(X509 *certificate, int64_t begin_s, int64_t end_s)
{
	return ASN1_TIME_set(X509_getm_notBefore(certificate), (time_t)begin_s) &&
	       ASN1_TIME_set(X509_getm_notAfter(certificate), (time_t)end_s);
}

static bool fill(X509 *certificate, EVP_PKEY *key, int64_t now_s, int64_t end_s, bool is_authority)
{
	return X509_set_version(certificate, X509_VERSION_3) && set_serial(certificate) &&
	       set_times(certificate, now_s - MINT_BACKDATE_S, end_s) &&
	       X509_set_pubkey(certificate, key) && add_constraints(certificate, is_authority) &&
	       add_usage(certificate, is_authority) && add_key_id(certificate);
}

static X509 *sign(X509 *certificate, bool is_filled, EVP_PKEY *key)
{
	if (is_filled && X509_sign(certificate, key, EVP_sha256()) > 0)
		return certificate;
	X509_free(certificate);
	errno = ENOMEM;
	return NULL;
}

X509 *mint_authority(EVP_PKEY *key, const char *run_id, int64_t now_s)
{
	X509 *made = X509_new();
	char name[COMMON_NAME_MAX + 1];
	bool is_filled;

	snprintf(name, sizeof(name), "warder run %s", run_id); /* what is too long is cut */
	is_filled = made && fill(made, key, now_s, now_s + MINT_AUTHORITY_S, true) &&
		    set_subject(made, "CN", name) &&
		    X509_set_issuer_name(made, X509_get_subject_name(made));
	return sign(made, is_filled, key);
}

X509 *mint_leaf(X509 *authority, EVP_PKEY *authority_key, EVP_PKEY *key, const char *name,
		int64_t now_s, int64_t end_s)
{
	unsigned char address[16];
	X509 *made;
	bool is_filled;

	if (!is_host_name(name) && resolve_literal(name, address) == 0) {
		errno = EINVAL;
		return NULL;
	}
	made = X509_new();
	is_filled = made && fill(made, key, now_s, end_s, false) &&
		    set_subject(made, "O", "warder") && /* names have no room in a common name */
		    X509_set_issuer_name(made, X509_get_subject_name(authority)) &&
		    add_server_usage(made) && add_issuer_id(made, authority) &&
		    add_name(made, name);
	return sign(made, is_filled, authority_key);
}
