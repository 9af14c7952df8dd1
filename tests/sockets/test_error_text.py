"""Errors of sockets and of TLS, in words a human can act on."""

import errno
import pickle
import ssl

import pytest

from thinconsumer.driver import Address
from thinconsumer.sockets.error_text import CONNECTED, CONNECTING, HANDSHAKING, connection_error, describe


def tls_error(reason, number=1):
    error = ssl.SSLError(number, f"[SSL: {reason}] something (_ssl.c:1)")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (OSError(errno.ECONNREFUSED, "x"), "refused"),
        (ConnectionResetError(errno.ECONNRESET, "x"), "reset"),
        (OSError(errno.ETIMEDOUT, "x"), "timed out"),
        (OSError(errno.EHOSTUNREACH, "x"), "host unreachable"),
        (OSError(errno.ENETUNREACH, "x"), "network unreachable"),
        (BrokenPipeError(errno.EPIPE, "x"), "has closed"),
        (OSError(errno.EMFILE, "x"), "too many files"),
        (OSError(errno.EADDRNOTAVAIL, "x"), "no local address"),
        (OSError(errno.EXDEV, "Improper link"), "Improper link"),
        (OSError("words of our own"), "words of our own"),
        (ValueError("no such host"), "no such host"),
        (ValueError(), "ValueError"),
        (tls_error("WRONG_VERSION_NUMBER"), "the port does not use TLS (set security_protocol='PLAINTEXT'"),
        (tls_error("RECORD_LAYER_FAILURE"), "the port does not use TLS (set security_protocol='PLAINTEXT'"),
        (tls_error("HTTP_REQUEST"), "the port does not use TLS (set security_protocol='PLAINTEXT'"),
        (tls_error("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "requires a client certificate"),
        (tls_error("TLSV1_ALERT_PROTOCOL_VERSION"), "no TLS version"),
        (tls_error("SSLV3_ALERT_HANDSHAKE_FAILURE"), "rejects the TLS handshake"),
        (tls_error("TLSV1_ALERT_UNKNOWN_CA"), "does not trust"),
        (tls_error("SOME_NEW_REASON"), "TLS error: some new reason"),
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), "the peer has closed the connection"),
        (ssl.SSLError(1, "no reason given"), "TLS error: no reason given"),
    ],
)
def test_every_cause_has_its_own_text(error, word):
    assert word in describe(error)


def test_an_untrusted_certificate_has_the_reason_in_its_error():
    error = ssl.SSLCertVerificationError(1, "x")
    error.reason = "CERTIFICATE_VERIFY_FAILED"
    error.verify_message = "self-signed certificate"
    assert describe(error) == "certificate verify failed: self-signed certificate"


def test_tls_error_numbers_are_not_looked_up_as_system_errors():
    """SSL_ERROR_SSL is 1, and so is EPERM."""
    assert "permitted" not in describe(tls_error("BAD_SIGNATURE"))


@pytest.mark.parametrize(
    ("error", "doing", "hint"),
    [
        (ssl.SSLEOFError(8, "EOF"), HANDSHAKING, True),
        (ConnectionResetError(errno.ECONNRESET, "x"), HANDSHAKING, True),
        (ssl.SSLEOFError(8, "EOF"), CONNECTED, False),
        (ConnectionResetError(errno.ECONNRESET, "x"), CONNECTING, False),
        (tls_error("TLSV1_ALERT_UNKNOWN_CA"), HANDSHAKING, False),
    ],
)
def test_a_handshake_cut_short_hints_at_a_plaintext_listener(error, doing, hint):
    message = str(connection_error("kafka-1", Address(2, ("10.0.0.1", 9092)), doing, error))
    assert ("PLAINTEXT" in message) is hint


@pytest.mark.parametrize(
    ("host", "address", "where"),
    [
        ("kafka-1", Address(2, ("10.0.0.1", 9092)), "kafka-1:9092 (10.0.0.1:9092): "),
        ("10.0.0.1", Address(2, ("10.0.0.1", 9092)), "10.0.0.1:9092: "),
        ("::1", Address(10, ("::1", 9092, 0, 0)), "[::1]:9092: "),
        ("", Address(2, ("10.0.0.1", 9092)), "10.0.0.1:9092: "),
    ],
)
def test_errors_name_the_host_and_the_address(host, address, where):
    cause = OSError(errno.ECONNREFUSED, "x")
    error = connection_error(host, address, CONNECTING, cause)
    assert str(error).startswith(where)
    assert str(error).endswith(", while connecting")
    assert (error.host, error.port) == (host, 9092)
    assert error.__cause__ is cause
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.host, copy.port) == (str(error), host, 9092)
