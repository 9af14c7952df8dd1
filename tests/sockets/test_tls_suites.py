"""Names of cipher suites: IANA's and OpenSSL's, of both versions of TLS."""

import ssl

import pytest

from thinconsumer.errors import KafkaConfigurationError
from thinconsumer.sockets.tls_context import is_tls_1_3, openssl_name, set_suites

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def new_context(oldest=V12, newest=V13):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version, context.maximum_version = oldest, newest
    return context


def names_of_1_2(context):
    return {cipher["name"] for cipher in context.get_ciphers() if not cipher["name"].startswith("TLS_")}


@pytest.mark.parametrize(
    ("iana", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_128_GCM_SHA256", "DHE-RSA-AES128-GCM-SHA256"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8", "ECDHE-ECDSA-AES128-CCM8"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_CCM", "ECDHE-ECDSA-AES256-CCM"),
    ],
)
def test_names_of_iana_are_translated_to_suites_that_openssl_has(iana, openssl):
    assert openssl_name(iana) == openssl
    new_context().set_ciphers(openssl)


@pytest.mark.parametrize("name", ["ECDHE-RSA-AES256-GCM-SHA384", "HIGH", "!aNULL", "DEFAULT@SECLEVEL=1"])
def test_openssls_own_names_and_keywords_are_unchanged(name):
    assert openssl_name(name) == name


@pytest.mark.parametrize("name", ["SSL_RSA_WITH_3DES_EDE_CBC_SHA", "TLS_RSA_WITH_NULL_SHA", "TLS_KRB5_WITH_RC4_128"])
def test_names_without_a_counterpart_are_refused(name):
    with pytest.raises(KafkaConfigurationError, match=f"{name} has no counterpart in OpenSSL"):
        openssl_name(name)


def test_versions_are_told_apart():
    assert is_tls_1_3("TLS_AES_256_GCM_SHA384")
    assert is_tls_1_3("TLS_CHACHA20_POLY1305_SHA256")
    assert not is_tls_1_3("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")
    assert not is_tls_1_3("ECDHE-RSA-AES256-GCM-SHA384")


def test_an_openssl_cipher_list_limits_tls_1_2_only():
    context = new_context()
    set_suites(context, "ECDHE+AESGCM:TLS_AES_256_GCM_SHA384:TLS_DHE_RSA_WITH_AES_128_GCM_SHA256", None)
    names = names_of_1_2(context)
    assert "DHE-RSA-AES128-GCM-SHA256" in names
    assert not any("CHACHA" in name for name in names)
    assert (context.minimum_version, context.maximum_version) == (V12, V13)


@pytest.mark.parametrize(
    ("ciphers", "suites", "versions"),
    [
        (None, ("TLS_AES_256_GCM_SHA384",), (V13, V13)),
        ("TLS_AES_256_GCM_SHA384", None, (V13, V13)),
        (None, ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",), (V12, V12)),
        (None, ("TLS_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"), (V12, V13)),
        (None, None, (V12, V13)),
    ],
)
def test_a_version_without_an_allowed_suite_is_switched_off(ciphers, suites, versions):
    context = new_context()
    set_suites(context, ciphers, suites)
    assert (context.minimum_version, context.maximum_version) == versions


def test_a_suite_list_is_exact():
    context = new_context()
    set_suites(context, None, ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",))
    assert names_of_1_2(context) == {"ECDHE-RSA-AES256-GCM-SHA384"}


def test_suites_for_a_version_that_is_already_the_only_one():
    context = new_context(newest=V12)
    set_suites(context, None, ("ECDHE-RSA-AES256-GCM-SHA384",))
    assert context.maximum_version == V12


@pytest.mark.parametrize(
    ("ciphers", "suites", "oldest", "newest", "text"),
    [
        ("NO-SUCH-SUITE", None, V12, V13, "ssl_ciphers: OpenSSL here has no such cipher suite"),
        (None, ("ECDHE-RSA-AES256-GCM-SHA384", "TYPO"), V12, V13, "ssl_cipher_suites: TYPO: OpenSSL here has no such"),
        (None, ("TLS_AES_256_GCM_SHA384",), V12, V12, "no suite of the TLS versions"),
        (None, ("ECDHE-RSA-AES256-GCM-SHA384",), V13, V13, "no suite of the TLS versions"),
        ("TLS_AES_256_GCM_SHA384", None, V12, V12, "no suite of the TLS versions"),
    ],
)
def test_suites_that_cannot_be_used_are_refused(ciphers, suites, oldest, newest, text):
    with pytest.raises(KafkaConfigurationError, match=text):
        set_suites(new_context(oldest, newest), ciphers, suites)
