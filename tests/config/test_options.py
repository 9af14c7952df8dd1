"""Every option's declaration: default, bounds, text, and the generated page."""

import functools
import inspect
import math
import pydoc
import selectors
import ssl
import warnings
from types import SimpleNamespace

import pytest

from tests.pages import load
from thinconsumer import Consumer, ConsumerInterceptor
from thinconsumer.config import (
    OPTIONS,
    ConsumerConfig,
    Deserializer,
    HostPort,
    OffsetResetPolicy,
    SecurityOptions,
    dotted,
)
from thinconsumer.config.kinds import Boolean, Integer, MillisecondsOrNever
from thinconsumer.config.security_kinds import JWT_BEARER
from thinconsumer.config.typed import ConsumerOptions
from thinconsumer.errors import KafkaConfigurationError

CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
JAAS = "software.amazon.msk.auth.iam.IAMLoginModule required;"
KEY = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"

REPORTER = SimpleNamespace(init=len)
#: Every option's documented default, another value or its text, and that value parsed.
CASES = {
    "bootstrap_servers": ((HostPort("localhost", 9092),), "a:1, b", (HostPort("a", 1), HostPort("b", 9092))),
    "client_id": (ConsumerConfig().client_id, "billing-1", "billing-1"),
    "bootstrap_timeout_ms": (30000, "1", 1),
    "default_api_timeout_ms": (60000, "1", 1),
    "client_dns_lookup": ("use_all_dns_ips", "USE_ALL_DNS_IPS", "use_all_dns_ips"),
    "resolver": (None, len, len),
    "on_bad_record": ("raise", len, len),
    "trace": ("", "file", "file"),
    "trace_bytes_max": (256 << 20, 1000, 1000),
    "metadata_max_age_ms": (300000, "9223372036854775807", 2**63 - 1),
    "metadata_recovery_strategy": ("rebootstrap", "NONE", "none"),
    "metadata_recovery_rebootstrap_trigger_ms": (300000, "0", 0),
    "metadata_cluster_check_enable": (True, "false", False),
    "allow_auto_create_topics": (False, "true", True),
    "enable_metrics_push": (None, "false", False),
    "exclude_internal_topics": (True, "false", False),
    "proxy_url": (None, " socks5://h:1080 ", "socks5://h:1080"),
    "request_timeout_ms": (30000, "40000", 40000),
    "retry_backoff_ms": (100, "200", 200),
    "retry_backoff_max_ms": (1000, "2000", 2000),
    "reconnect_backoff_ms": (50, "100", 100),
    "reconnect_backoff_max_ms": (1000, "2000", 2000),
    "socket_connection_setup_timeout_ms": (10000, "5000", 5000),
    "socket_connection_setup_timeout_max_ms": (30000, "60000", 60000),
    "connections_max_idle_ms": (540000, "-1", math.inf),
    "max_in_flight_requests_per_connection": (5, "1", 1),
    "receive_message_max_bytes": (100_000_000, "200000000", 200_000_000),
    "receive_buffer_bytes": (None, "65536", 65536),
    "send_buffer_bytes": (None, "131072", 131072),
    "socket_options": (((6, 1, 1),), [(1, 9, 1)], ((1, 9, 1),)),
    "selector": (None, selectors.SelectSelector, selectors.SelectSelector),
    "key_deserializer": (None, len, Deserializer.adapt(len)),
    "value_deserializer": (None, len, Deserializer.adapt(len)),
    "interceptor_classes": ((), [ConsumerInterceptor], (ConsumerInterceptor,)),
    "metric_reporters": ((), [REPORTER], (REPORTER,)),
    "max_poll_records": (500, "1", 1),
    "consumer_timeout_ms": (math.inf, "1000", 1000),
    "fetch_min_bytes": (1, "1000", 1000),
    "fetch_max_wait_ms": (500, "1000", 1000),
    "fetch_max_bytes": (52428800, "1000", 1000),
    "max_partition_fetch_bytes": (1048576, "1000", 1000),
    "batches_fetch_bytes": (4_000_000, "1000", 1000),
    "max_buffered_bytes": (67108864, "65536", 65536),
    "enable_incremental_fetch_sessions": (True, "false", False),
    "check_crcs": (True, "false", False),
    "isolation_level": ("read_uncommitted", "read_committed", "read_committed"),
    "client_rack": ("", "eu-1a", "eu-1a"),
    "auto_offset_reset": (
        OffsetResetPolicy.parse("latest"),
        "by_duration:P1DT2H",
        OffsetResetPolicy.parse("by_duration:PT26H"),
    ),
    "new_partition_offset_reset": (OffsetResetPolicy.parse("earliest"), "latest", OffsetResetPolicy.parse("latest")),
    "group_id": (None, "g", "g"),
    "group_instance_id": (None, "i-1_a.b", "i-1_a.b"),
    "group_protocol": ("classic", "AUTO", "auto"),
    "group_remote_assignor": (None, "uniform", "uniform"),
    "partition_assignment_strategy": (
        ("range", "cooperative-sticky"),
        "cooperative-sticky,range",
        ("cooperative-sticky", "range"),
    ),
    "session_timeout_ms": (45000, "10000", 10000),
    "heartbeat_interval_ms": (3000, "1000", 1000),
    "max_poll_interval_ms": (300000, "20000", 20000),
    "ordered_delivery": ("topic", "barrier", "barrier"),
    "ordered_delivery_grace_ms": (300000, "420000", 420000),
    "enable_auto_commit": (True, "false", False),
    "auto_commit_interval_ms": (5000, "0", 0),
    "allow_foreign_commits": (False, "true", True),
    "default_offset_commit_callback": (None, len, len),
    "security_protocol": ("PLAINTEXT", "ssl", "SSL"),
    "ssl_context": (None, CONTEXT, CONTEXT),
    "ssl_check_hostname": (True, "false", False),
    "ssl_endpoint_identification_algorithm": ("https", "none", ""),
    "ssl_cafile": (None, __file__, __file__),
    "ssl_certfile": (None, __file__, __file__),
    "ssl_keyfile": (None, __file__, __file__),
    "ssl_password": (None, "p", "p"),
    "ssl_crlfile": (None, __file__, __file__),
    "ssl_ciphers": (None, "ECDHE+AESGCM:!aNULL", "ECDHE+AESGCM:!aNULL"),
    "ssl_cipher_suites": (
        None,
        "TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384",
        ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384"),
    ),
    "ssl_protocol": ("TLSv1.3", "tls", "TLS"),
    "ssl_enabled_protocols": (("TLSv1.2", "TLSv1.3"), "TLSv1.3", ("TLSv1.3",)),
    "ssl_truststore_location": (None, __file__, __file__),
    "ssl_truststore_type": (None, "pkcs12", "PKCS12"),
    "ssl_truststore_certificates": (None, CERTIFICATE, CERTIFICATE),
    "ssl_truststore_password": (None, "p", "p"),
    "ssl_keystore_location": (None, __file__, __file__),
    "ssl_keystore_type": (None, "pem", "PEM"),
    "ssl_keystore_password": (None, "p", "p"),
    "ssl_keystore_key": (None, KEY, KEY),
    "ssl_keystore_certificate_chain": (None, CERTIFICATE, CERTIFICATE),
    "ssl_key_password": (None, "p", "p"),
    "sasl_mechanism": (None, "scram-sha-256", "SCRAM-SHA-256"),
    "sasl_plain_username": (None, "u", "u"),
    "sasl_plain_password": (None, "p", "p"),
    "sasl_jaas_config": (None, JAAS, JAAS),
    "sasl_oauth_token_provider": (None, len, len),
    "sasl_oauthbearer_token_endpoint_url": (None, "https://a/t", "https://a/t"),
    "sasl_oauthbearer_grant_type": ("client_credentials", JWT_BEARER, JWT_BEARER),
    "sasl_oauthbearer_assertion_file": (None, __file__, __file__),
    "sasl_oauthbearer_assertion_private_key_file": (None, __file__, __file__),
    "sasl_oauthbearer_assertion_private_key_pem": (None, KEY, KEY),
    "sasl_oauthbearer_assertion_private_key_passphrase": (None, "p", "p"),
    "sasl_oauthbearer_assertion_algorithm": ("RS256", "es256", "ES256"),
    "sasl_oauthbearer_assertion_claim_aud": (None, "a", "a"),
    "sasl_oauthbearer_assertion_claim_iss": (None, "i", "i"),
    "sasl_oauthbearer_assertion_claim_sub": (None, "s", "s"),
    "sasl_oauthbearer_assertion_claim_exp_seconds": (300, "60", 60),
    "sasl_oauthbearer_assertion_claim_nbf_seconds": (60, "0", 0),
    "sasl_oauthbearer_assertion_claim_jti_include": (False, "true", True),
    "sasl_oauthbearer_assertion_template_file": (None, __file__, __file__),
    "sasl_oauthbearer_metadata_authentication_type": ("none", "AZURE_IMDS", "azure_imds"),
    "sasl_oauthbearer_config": (None, "query=resource=r", "query=resource=r"),
    "sasl_oauthbearer_client_credentials_client_id": (None, "c", "c"),
    "sasl_oauthbearer_client_credentials_client_secret": (None, "p", "p"),
    "sasl_oauthbearer_scope": (None, "s", "s"),
    "sasl_oauthbearer_scope_claim_name": ("scope", "scp", "scp"),
    "sasl_oauthbearer_sub_claim_name": ("sub", "uid", "uid"),
    "sasl_oauthbearer_header_urlencode": (False, "true", True),
    "sasl_oauthbearer_extensions": (None, "a=b,c=d=e", {"a": "b", "c": "d=e"}),
    "sasl_kerberos_service_name": ("kafka", "k", "k"),
    "sasl_kerberos_domain_name": (None, "d", "d"),
    "sasl_kerberos_name": (None, "kafka@d", "kafka@d"),
    "sasl_kerberos_principal": (None, "me@R", "me@R"),
    "sasl_kerberos_keytab": (None, __file__, __file__),
    "sasl_aws_msk_iam_region": (None, "eu-west-1", "eu-west-1"),
    "sasl_aws_msk_iam_profile": (None, "dev", "dev"),
    "sasl_aws_msk_iam_role_arn": (None, "arn:aws:iam::1:role/r", "arn:aws:iam::1:role/r"),
    "sasl_aws_msk_iam_role_session_name": (None, "s", "s"),
    "sasl_aws_msk_iam_role_external_id": (None, "x", "x"),
    "sasl_aws_msk_iam_sts_region": (None, "eu-west-1", "eu-west-1"),
    "sasl_login_connect_timeout_ms": (None, "1", 1),
    "sasl_login_read_timeout_ms": (None, "1", 1),
    "sasl_login_retry_backoff_ms": (100, "200", 200),
    "sasl_login_retry_backoff_max_ms": (10000, "20000", 20000),
    "sasl_login_refresh_window_factor": (0.8, "0.5", 0.5),
    "sasl_login_refresh_window_jitter": (0.05, "0", 0.0),
    "sasl_login_refresh_min_period_seconds": (60, "0", 0),
    "sasl_login_refresh_buffer_seconds": (300, "3600", 3600),
}


def test_every_option_has_a_case():
    assert CASES.keys() == OPTIONS.keys()


def build(name, value):
    """Return the option's value in a config with a group, so that group options have an effect.

    Options of TLS and SASL are only parsed: alone most of them have no effect, or break a rule (test_security_rules).
    """
    if name in SecurityOptions.options():
        option = OPTIONS[name]
        return option.default if value is None else option.kind.parse(from_text(option, value))
    more = {"group.protocol": "consumer"} if name == "group_remote_assignor" else {}
    return getattr(ConsumerConfig.from_config({"group.id": "g", **more, dotted(name): value}), name)


def from_text(option, value):
    return option.kind.from_text(value) if isinstance(value, str) else value


@pytest.mark.parametrize("name", OPTIONS)
def test_default_and_change(name):
    default, given, result = CASES[name]
    assert getattr(ConsumerConfig(), name) == OPTIONS[name].default == default
    assert getattr(ConsumerConfig.from_options(), name) == default
    assert build(name, given) == result


@pytest.mark.parametrize("name", OPTIONS)
def test_the_default_is_a_valid_value(name):
    option = OPTIONS[name]
    value = option.default
    if isinstance(value, tuple) and value and isinstance(value[0], HostPort):
        value = [str(server) for server in value]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if name == "max_poll_interval_ms":  # Above the session's default; see test_rules.
            warnings.simplefilter("ignore")
        assert build(name, value) == option.default


NUMBERS = [name for name, option in OPTIONS.items() if isinstance(option.kind, (Integer, MillisecondsOrNever))]

BOUNDS = {
    (0, 2**63 - 1): "metadata_max_age_ms metadata_recovery_rebootstrap_trigger_ms retry_backoff_ms "
    "retry_backoff_max_ms reconnect_backoff_ms reconnect_backoff_max_ms consumer_timeout_ms "
    "sasl_login_retry_backoff_ms sasl_login_retry_backoff_max_ms",
    (1, 2**63 - 1): "socket_connection_setup_timeout_ms socket_connection_setup_timeout_max_ms connections_max_idle_ms "
    "trace_bytes_max",
    (65536, 2**63 - 1): "max_buffered_bytes",
    (
        0,
        2**31 - 1,
    ): "bootstrap_timeout_ms default_api_timeout_ms fetch_min_bytes fetch_max_wait_ms auto_commit_interval_ms "
    "ordered_delivery_grace_ms",
    (1024, 2**31 - 1): "receive_message_max_bytes",
    (1, 2**31 - 1): "request_timeout_ms max_in_flight_requests_per_connection receive_buffer_bytes send_buffer_bytes "
    "max_poll_records fetch_max_bytes max_partition_fetch_bytes batches_fetch_bytes session_timeout_ms "
    "heartbeat_interval_ms max_poll_interval_ms sasl_login_connect_timeout_ms sasl_login_read_timeout_ms",
    (0, 900): "sasl_login_refresh_min_period_seconds",
    (0, 3600): "sasl_login_refresh_buffer_seconds sasl_oauthbearer_assertion_claim_nbf_seconds",
    (1, 86400): "sasl_oauthbearer_assertion_claim_exp_seconds",
}
BOUNDS_OF = {name: bounds for bounds, names in BOUNDS.items() for name in names.split()}


def test_every_number_has_bounds():
    assert set(BOUNDS_OF) == set(NUMBERS)


@pytest.mark.parametrize("name", NUMBERS)
def test_bounds(name):
    """Both bounds are valid and values beyond them raise. Rules between options are not involved."""
    smallest, largest = BOUNDS_OF[name]
    for value in (smallest, largest):
        assert OPTIONS[name].kind.parse(value) == value
    for value in (smallest - 1 if smallest else -2, largest + 1, str(largest), None, True):
        if value is None and OPTIONS[name].default is None:
            continue
        with pytest.raises(KafkaConfigurationError) as caught:
            ConsumerConfig.from_options(**{name: value})
        assert str(caught.value).startswith(f"{name}={value!r}: must be ")


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if isinstance(option.kind, Boolean)])
def test_booleans_take_neither_numbers_nor_words(name):
    for value in (0, 1, "true", None):
        if value is None and OPTIONS[name].default is None:
            continue
        with pytest.raises(KafkaConfigurationError, match="must be True or False"):
            ConsumerConfig.from_options(**{name: value})


INVALID = {
    "client_id": ["x" * 32768],
    "client_rack": ["x" * 32768],
    "group_id": ["", "x" * 32768],
    "group_instance_id": ["", ".", "..", "a b", "a/b", "x" * 250, "a\n", "x" * 32768],
    "new_partition_offset_reset": ["none"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in INVALID.items() for value in values])
def test_an_invalid_text_raises(name, value):
    with pytest.raises(KafkaConfigurationError, match=f"^{name}="):
        ConsumerConfig.from_options(**{"group_id": "g", name: value})


def test_the_repr_shows_options_that_differ_from_the_default():
    config = ConsumerConfig.from_options(
        bootstrap_servers="a, [::1]:1", auto_offset_reset="by_duration:PT1H", check_crcs=False, fetch_max_bytes=7
    )
    assert repr(config) == (
        "ConsumerConfig(bootstrap_servers='a:9092,[::1]:1', fetch_max_bytes=7, check_crcs=False, "
        "auto_offset_reset='by_duration:PT3600S')"
    )
    assert repr(ConsumerConfig()) == "ConsumerConfig()"


def test_the_repr_does_not_call_a_users_repr():
    decrypt = functools.partial(print, "c4nary")
    config = ConsumerConfig.from_options(value_deserializer=decrypt, resolver=decrypt, group_id="g")
    assert "c4nary" not in f"{config!r} {config} {config.value_deserializer!r}"


def test_the_options_page_is_up_to_date(docs):
    """Run ``python docs/generate_options.py`` and commit the page when this fails."""
    generator = load("generate_options")
    assert (docs / "options.md").read_text(encoding="utf-8") == generator.page()
    assert generator.MODULE.read_text(encoding="utf-8") == generator.module()
    for name in OPTIONS:
        assert f"| `{name}` |" in generator.page()


def test_type_checkers_see_every_option():
    typed = set(ConsumerOptions.__optional_keys__)
    assert typed | {"key_deserializer", "value_deserializer"} == set(OPTIONS)


def test_help_lists_every_option():
    text = " ".join(inspect.getdoc(Consumer).split())
    assert text.startswith("A Kafka consumer without threads")
    for name, option in OPTIONS.items():
        assert f" {name} ({option.kind.description}; default " in text
        assert f"): {option.doc}" in text
    assert "Options:" in pydoc.render_doc(Consumer)
