"""The security settings: names, kinds, contradictions, and secrets that are never shown."""

import pickle

import pytest

from thinconsumer.broker import ListenerSecurity
from thinconsumer.errors import IllegalArgumentError

PEM = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"
TLS = {"ssl_keystore_key": PEM, "ssl_keystore_certificate_chain": PEM}


def test_default_is_plaintext_without_logins():
    security = ListenerSecurity()
    assert not security.uses_tls
    assert not security.uses_sasl
    assert repr(security) == "<ListenerSecurity PLAINTEXT>"


def test_kafka_names_and_texts_are_understood():
    security = ListenerSecurity.of(
        {
            "security.protocol": "SASL_SSL",
            "ssl.keystore.location": "server.pem",
            "ssl.enabled.protocols": "TLSv1.3",
            "sasl.enabled.mechanisms": "PLAIN, SCRAM-SHA-512",
            "users": {"alice": "a"},
            "user_bob": "b",
            "connections.max.reauth.ms": "5000",
        }
    )
    assert security.uses_tls and security.uses_sasl
    assert security.sasl_enabled_mechanisms == ("PLAIN", "SCRAM-SHA-512")
    assert security.users == {"alice": "a", "bob": "b"}
    assert security.connections_max_reauth_ms == 5000
    assert security.ssl_enabled_protocols == ("TLSv1.3",)
    assert ListenerSecurity.of(security.as_settings()) == security


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"security_protocol": "TLS"}, "'TLS' is none of PLAINTEXT"),
        ({"ssl_client_auth": "yes"}, "none, requested, required"),
        ({"ssl_enabled_protocols": "SSLv3"}, "TLSv1.2"),
        ({"ssl_enabled_protocols": ()}, "ssl_enabled_protocols is empty"),
        ({"sasl_enabled_mechanisms": "GSSAPI", "security_protocol": "SASL_SSL"}, "'GSSAPI'"),
        ({"security_protocol": "SASL_PLAINTEXT"}, "needs sasl_enabled_mechanisms"),
        ({"sasl_enabled_mechanisms": ["PLAIN"]}, "needs the security_protocol SASL_PLAINTEXT"),
        ({"security_protocol": "SSL"}, "needs the server's key"),
        ({"security_protocol": "SSL", "ssl_client_auth": "required", **TLS}, "ssl_truststore_location"),
        ({"ssl_keystore_key": PEM}, "must be given together"),
        ({"ssl_keystore_location": "a.pem", **TLS}, "not both"),
        ({"ssl_truststore_location": "a.pem", "ssl_truststore_certificates": PEM}, "not both"),
        ({"ssl_truststore_certificates": "a.pem"}, "is not PEM text"),
        ({"connections.max.reauth.ms": "soon"}, "not a whole number"),
        ({"connections.max.reauth.ms": -1}, "at least 0"),
        ({"users": ["alice"]}, "mapping"),
        ({"user_": "x"}, "'' is not a valid user name"),
        ({"sasl_enabled_mechanisms": 3}, "not a list"),
        ({"sasl.enabled.mechanism": "PLAIN"}, "did you mean 'sasl.enabled.mechanisms'"),
    ],
)
def test_invalid_settings_are_rejected(settings, words):
    with pytest.raises(IllegalArgumentError, match=words):
        ListenerSecurity.of(settings)


def test_secrets_are_not_shown():
    security = ListenerSecurity(
        "SASL_SSL", sasl_enabled_mechanisms=("PLAIN",), users={"u": "canary"}, ssl_key_password="canary", **TLS
    )
    assert repr(security) == "<ListenerSecurity SASL_SSL PLAIN>"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(security)
    with pytest.raises(IllegalArgumentError) as caught:
        ListenerSecurity(connections_max_reauth_ms="canary")
    assert "canary" not in str(caught.value)
