/* SPDX-License-Identifier: MIT */
/* Tables: of what can be wrong with a certificate, and with the rest, on either side. */
#include "tls/fault.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <stddef.h>
#include <string.h>

struct fault {
	long code;
	const char *text;
};

#define UNTRUSTED "the certificate is not from a trusted authority"

static const struct fault certificate_faults[] = {
	{ X509_V_ERR_CERT_HAS_EXPIRED, "the certificate has expired" },
	{ X509_V_ERR_CERT_NOT_YET_VALID, "the certificate is not valid yet" },
	{ X509_V_ERR_HOSTNAME_MISMATCH, "the certificate is for another name" },
	{ X509_V_ERR_IP_ADDRESS_MISMATCH, "the certificate is for another name" },
	{ X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, UNTRUSTED },
	{ X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, UNTRUSTED },
	{ X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, UNTRUSTED },
	{ X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, UNTRUSTED },
	{ X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, UNTRUSTED },
	{ X509_V_ERR_INVALID_PURPOSE, "the certificate is not for a server" },
};

/* Reasons of OpenSSL's that do not say what has happened. */
static const struct fault protocol_faults[] = {
	{ SSL_R_WRONG_VERSION_NUMBER, "the server does not speak TLS" },
	{ SSL_R_HTTP_REQUEST, "the server does not speak TLS" },
	{ SSL_R_UNSUPPORTED_PROTOCOL, "the server does not speak TLS 1.2 or newer" },
	{ SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, "the server does not speak TLS 1.2 or newer" },
	{ SSL_R_TLSV1_UNRECOGNIZED_NAME, "the server does not know this name" },
	{ SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, "the server refused every offer" },
};

/* Towards a peer of our own, before those. */
static const struct fault own_faults[] = {
	{ SSL_R_UNSUPPORTED_PROTOCOL, "the server does not speak TLS 1.3" },
	{ SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, "the server does not speak TLS 1.3" },
	{ SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL, "the server is no keeper" },
};

static const struct fault caller_faults[] = {
	{ SSL_R_WRONG_VERSION_NUMBER, "it does not speak TLS" },
	{ SSL_R_HTTP_REQUEST, "it does not speak TLS" },
	{ SSL_R_HTTPS_PROXY_REQUEST, "it does not speak TLS" },
	{ SSL_R_UNSUPPORTED_PROTOCOL, "it does not speak TLS 1.3" },
	{ SSL_R_VERSION_TOO_LOW, "it does not speak TLS 1.3" },
	{ SSL_R_NO_APPLICATION_PROTOCOL, "it offers no protocol that is spoken here" },
	{ SSL_R_TLSV1_ALERT_UNKNOWN_CA, "it does not trust our certificate" },
	{ SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, "it does not trust our certificate" },
	{ SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, "it does not trust our certificate" },
	{ SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, "it does not trust our certificate" },
};

#define NO_TLS     "the agent does not speak TLS"
#define NO_NEW_TLS "the agent does not speak TLS 1.2 or newer"
#define NO_OFFER   "the agent offers nothing that is spoken here"
#define AGENT_DOUBTS                                                                               \
	"the agent does not believe the run's certificate: it has a trust store of its own, "      \
	"or pins another certificate"

/* Alerts that mean that a client does not like the certificate. Each library has its own. */
static const struct fault agent_doubts[] = {
	{ SSL_R_TLSV1_ALERT_UNKNOWN_CA, AGENT_DOUBTS },
	{ SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, AGENT_DOUBTS },
	{ SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, AGENT_DOUBTS },
	{ SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, AGENT_DOUBTS },
	{ SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, AGENT_DOUBTS },
	{ SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED, AGENT_DOUBTS },
	{ SSL_R_TLSV1_ALERT_ACCESS_DENIED, AGENT_DOUBTS },
};

static const struct fault agent_faults[] = {
	{ SSL_R_WRONG_VERSION_NUMBER, NO_TLS },
	{ SSL_R_HTTP_REQUEST, NO_TLS },
	{ SSL_R_HTTPS_PROXY_REQUEST, NO_TLS },
	{ SSL_R_UNSUPPORTED_PROTOCOL, NO_NEW_TLS },
	{ SSL_R_VERSION_TOO_LOW, NO_NEW_TLS },
	{ SSL_R_NO_SHARED_CIPHER, NO_OFFER },
	{ SSL_R_NO_SUITABLE_KEY_SHARE, NO_OFFER },
	{ SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, NO_OFFER },
	{ SSL_R_NO_APPLICATION_PROTOCOL, "the agent offers no protocol that is spoken here" },
	{ SSL_R_CALLBACK_FAILED, "the agent asks for another name" },
};

static const char *find(const struct fault *faults, size_t count, long code)
{
	for (size_t i = 0; i < count; i++)
		if (faults[i].code == code)
			return faults[i].text;
	return NULL;
}

static const char *certificate_text(long result)
{
	const char *text = find(certificate_faults, ARRAY_LEN(certificate_faults), result);

	return text ? text : X509_verify_cert_error_string(result);
}

static const char *protocol_text(const struct fault *faults, size_t count, unsigned long error)
{
	const char *text = ERR_GET_LIB(error) == ERR_LIB_SSL
				   ? find(faults, count, ERR_GET_REASON(error))
				   : NULL;

	if (!text)
		text = ERR_reason_error_string(error);
	return text ? text : "the handshake failed";
}

static const char *server_text(const SSL *ssl, unsigned long error)
{
	const char *text = NULL;

	/* SSL_get_min_proto_version is a macro that does not know const. */
	if (SSL_ctrl((SSL *)ssl, SSL_CTRL_GET_MIN_PROTO_VERSION, 0, NULL) == TLS1_3_VERSION &&
	    ERR_GET_LIB(error) == ERR_LIB_SSL)
		text = find(own_faults, ARRAY_LEN(own_faults), ERR_GET_REASON(error));
	return text ? text : protocol_text(protocol_faults, ARRAY_LEN(protocol_faults), error);
}

void fault_describe(const SSL *ssl, int code, const char *name, const char *trust_hint,
		    struct err *err)
{
	long result = SSL_get_verify_result(ssl);

	if (result != X509_V_OK) {
		const char *text = certificate_text(result);

		err_say(err, EKEYREJECTED, "TLS with '%s': %s", name, text);
		if (strcmp(text, UNTRUSTED) == 0)
			err_hint(err, "%s", trust_hint);
	} else if (code == EPROTO)
		err_say(err, EPROTO, "TLS with '%s': %s", name, server_text(ssl, ERR_peek_error()));
	else if (code == ECONNRESET || code == EPIPE)
		err_say(err, ECONNRESET, "TLS with '%s': the server closed the connection", name);
	else
		err_set(err, code, "TLS with '%s'", name);
}

void fault_describe_caller(int code, struct err *err)
{
	if (code == EPROTO)
		err_say(err, EPROTO, "%s",
			protocol_text(caller_faults, ARRAY_LEN(caller_faults), ERR_peek_error()));
	else if (code == ECONNRESET || code == EPIPE)
		err_say(err, ECONNRESET, "it closed the connection during the handshake");
	else
		err_set(err, code, "TLS");
}

void fault_describe_agent(int code, const char *name, struct err *err)
{
	unsigned long error = ERR_peek_error();
	const char *doubt = find(agent_doubts, ARRAY_LEN(agent_doubts), ERR_GET_REASON(error));

	if (code == EPROTO && doubt && ERR_GET_LIB(error) == ERR_LIB_SSL)
		err_say(err, EKEYREJECTED, "TLS as '%s': %s", name, doubt);
	else if (code == EPROTO)
		err_say(err, EPROTO, "TLS as '%s': %s", name,
			protocol_text(agent_faults, ARRAY_LEN(agent_faults), error));
	else if (code == ECONNRESET || code == EPIPE)
		err_say(err, ECONNRESET, "TLS as '%s': the agent closed the connection", name);
	else
		err_set(err, code, "TLS as '%s'", name);
}
