/* SPDX-License-Identifier: MIT */
/* What Java is to trust, as OpenSSL reads it; test_egress_trust.py shows it to a JDK. */
#include "unit.h"

#include <openssl/pem.h>
#include <openssl/pkcs12.h>

#include "cmd/keystore.h"
#include "tls/authority.h"

static struct buf store;

static int set_up(void **state)
{
	(void)state;
	buf_init(&store, 1 << 22);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	buf_fini(&store);
	return 0;
}

/* The bags of the one safe in it. */
static STACK_OF(PKCS12_SAFEBAG) * read_store(void)
{
	const unsigned char *data = (const unsigned char *)store.data;
	PKCS12 *file = d2i_PKCS12(NULL, &data, (long)store.len);
	STACK_OF(PKCS7) * safes;
	STACK_OF(PKCS12_SAFEBAG) * bags;

	assert_non_null(file);
	assert_ptr_equal(data, store.data + store.len);
	assert_false(PKCS12_mac_present(file));
	safes = PKCS12_unpack_authsafes(file);
	assert_int_equal(sk_PKCS7_num(safes), 1);
	bags = PKCS12_unpack_p7data(sk_PKCS7_value(safes, 0));
	assert_non_null(bags);
	sk_PKCS7_pop_free(safes, PKCS7_free);
	PKCS12_free(file);
	return bags;
}

/* A bundle of that many, and the first of them. */
static X509 *add_certificates(struct buf *pem, size_t count)
{
	X509 *first = NULL;

	for (size_t i = 0; i < count; i++) {
		struct tls_authority *authority;
		struct bytes one;
		struct err err;
		BIO *bio;

		assert_int_equal(tls_authority_new("run", &authority, &err), 0);
		one = tls_authority_pem(authority);
		buf_add(pem, one.data, one.len);
		bio = BIO_new_mem_buf(one.data, (int)one.len);
		if (!first)
			first = PEM_read_bio_X509(bio, NULL, NULL, NULL);
		BIO_free(bio);
		tls_authority_free(authority);
	}
	return first;
}

static void every_certificate_is_one_to_be_trusted(void **state)
{
	/* Lengths of one byte, two and three, at the places where they are counted together. */
	static const size_t counts[] = { 0, 1, 2, 150 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		STACK_OF(PKCS12_SAFEBAG) * bags;
		struct buf pem;
		X509 *first;

		buf_init(&pem, 1 << 22);
		buf_add_text(&pem, "# a comment\n");
		first = add_certificates(&pem, counts[i]);
		store.len = 0;
		keystore_format((struct bytes){ pem.data, pem.len }, &store);
		bags = read_store();
		assert_int_equal(sk_PKCS12_SAFEBAG_num(bags), counts[i]);
		for (int j = 0; j < sk_PKCS12_SAFEBAG_num(bags); j++) {
			PKCS12_SAFEBAG *bag = sk_PKCS12_SAFEBAG_value(bags, j);
			X509 *got = PKCS12_SAFEBAG_get1_cert(bag);
			ASN1_OBJECT *usage = OBJ_txt2obj("2.16.840.1.113894.746875.1.1", 1);
			const STACK_OF(X509_ATTRIBUTE) *attributes = PKCS12_SAFEBAG_get0_attrs(bag);

			assert_non_null(got);
			if (j == 0)
				assert_int_equal(X509_cmp(got, first), 0);
			assert_int_equal(X509at_get_attr_by_OBJ(attributes, usage, -1), 0);
			ASN1_OBJECT_free(usage);
			X509_free(got);
		}
		sk_PKCS12_SAFEBAG_pop_free(bags, PKCS12_SAFEBAG_free);
		X509_free(first);
		buf_fini(&pem);
	}
}

static void what_is_no_certificate_is_left_out(void **state)
{
	static const char *const texts[] = {
		"",
		"-----BEGIN CERTIFICATE-----\nAAAA\n",
		"-----BEGIN PRIVATE KEY-----\nAAAA\n",
		"-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		STACK_OF(PKCS12_SAFEBAG) * bags;

		store.len = 0;
		keystore_format(bytes_of(texts[i]), &store);
		bags = read_store();
		assert_int_equal(sk_PKCS12_SAFEBAG_num(bags), 0);
		sk_PKCS12_SAFEBAG_pop_free(bags, PKCS12_SAFEBAG_free);
	}
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	RUN_TESTS(FRESH(every_certificate_is_one_to_be_trusted),
		  FRESH(what_is_no_certificate_is_left_out));
}
