"""The meaning of each error of OpenSSL, and the errors that a retry cannot change."""

import ssl

import pytest

from thinconsumer.sockets.error_text import _CERTIFICATE_ADVICE, describe, is_certificate_rejected


def tls_error(reason, number=1, **attributes):
    error = ssl.SSLError(number, f"[SSL: {reason}] something (_ssl.c:1)")
    error.reason = reason
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("SSLV3_ALERT_BAD_CERTIFICATE", "certificate, or rejects the one it received (see ssl_certfile"),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "the peer requires a client certificate (see ssl_certfile or"),
        ("SSLV3_ALERT_CERTIFICATE_UNKNOWN", "the peer rejects the client certificate (see ssl_certfile or"),
        ("TLSV1_ALERT_PROTOCOL_VERSION", "share no TLS version (see ssl_enabled_protocols"),
        ("NO_PROTOCOLS_AVAILABLE", "share no TLS version"),
        ("NO_SHARED_CIPHER", "share no cipher suite (see ssl_ciphers"),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", "no common cipher suite (see ssl_ciphers and ssl_cipher_suites), or a"),
        ("TLSV1_UNRECOGNIZED_NAME", "TLS error: unrecognized name"),
        ("TLSV1_ALERT_UNRECOGNIZED_NAME", "no certificate for this host name"),
        ("DH_KEY_TOO_SMALL", "security level"),
    ],
)
def test_texts_name_the_options_to_look_at(reason, text):
    assert text in describe(tls_error(reason))


@pytest.mark.parametrize("code", _CERTIFICATE_ADVICE)
def test_each_reason_to_reject_a_certificate_has_its_advice(code):
    error = tls_error("CERTIFICATE_VERIFY_FAILED", verify_message="the reason.", verify_code=code)
    assert describe(error) == f"certificate verify failed: the reason ({_CERTIFICATE_ADVICE[code]})"


def test_a_reason_without_advice_stands_alone():
    error = tls_error("CERTIFICATE_VERIFY_FAILED", verify_message="unheard of", verify_code=999)
    assert describe(error) == "certificate verify failed: unheard of"


@pytest.mark.parametrize(
    ("error", "shaken", "rejected"),
    [
        (tls_error("CERTIFICATE_VERIFY_FAILED"), False, True),
        (tls_error("TLSV13_ALERT_CERTIFICATE_REQUIRED"), True, True),
        (tls_error("SSLV3_ALERT_HANDSHAKE_FAILURE"), False, True),
        (tls_error("WRONG_VERSION_NUMBER"), False, True),
        (tls_error("WRONG_VERSION_NUMBER"), True, False),
        (tls_error("TLSV1_ALERT_INTERNAL_ERROR"), False, False),
        (tls_error("DECRYPTION_FAILED_OR_BAD_RECORD_MAC"), True, False),
        (tls_error("UNEXPECTED_EOF_WHILE_READING"), False, False),
        (ssl.SSLEOFError(8, "EOF"), False, False),
        (ssl.SSLError(1, "no reason"), False, False),
    ],
)
def test_only_what_a_retry_cannot_change_counts_as_rejected(error, shaken, rejected):
    assert is_certificate_rejected(error, shaken=shaken) is rejected
