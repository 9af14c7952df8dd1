"""Options of Java's consumer, kafka-python and librdkafka that thinconsumer lacks, each with an error or a warning.

An option is *refused* with an error if ignoring it would change, for example, security or whether the user's code runs.
Others, such as those of metrics, are *accepted with a warning*. Any is accepted silently if its value requests what
thinconsumer does anyway. No report contains the value, since many values are secrets. Most rows for librdkafka are in
``other_clients``, which is imported only for a name that is not found here.
"""

from __future__ import annotations

from ..support.lazy_dataclass import dataclass
from .security_kinds import JAVA_OAUTH
from .values import INT64_MAX

_METRICS = "how metrics are counted cannot be configured"
_JAVA_CLASS = "Java classes cannot be loaded"
_TOKENS = "tokens are checked by brokers only"
_TICKETS = "tickets are renewed by the Kerberos library or by k5start, not by clients"
_PROVIDER = "unsecured tokens are not made here: pass sasl_oauth_token_provider, which returns them"
_ONE_TRUST = "token endpoints are verified with the same certificates as brokers: use ssl.ca.location for both"


@dataclass(frozen=True, slots=True)
class Unsupported:
    """An unsupported option: refused with an error or accepted with a warning. Values in ``harmless`` cause neither."""

    refused: bool
    reason: str
    harmless: tuple[object, ...] = (None,)

    def is_harmless(self, value: object) -> bool:
        """Return whether the value, typed or as text, is one of ``harmless`` and therefore accepted silently."""
        for harmless in self.harmless:
            # The types are compared, too: 1 == True in Python, and the == of a user's class may return anything.
            if type(value) is type(harmless) and value == harmless:
                return True
            if harmless is not None and isinstance(value, str) and value.strip().lower() == str(harmless).lower():
                return True
        return False


#: Unsupported options by Python name; in a dotted name, each underscore is a dot.
UNSUPPORTED: dict[str, Unsupported] = {
    "api_version": Unsupported(False, "versions are negotiated with each broker"),
    "metrics_enabled": Unsupported(False, _METRICS, (True,)),
    "metrics_num_samples": Unsupported(False, _METRICS, (2,)),
    "metrics_sample_window_ms": Unsupported(False, _METRICS, (30000,)),
    "metric_group_prefix": Unsupported(False, _METRICS, ("consumer",)),
    "metrics_recording_level": Unsupported(False, _METRICS, ("INFO",)),
    "auto_include_jmx_reporter": Unsupported(False, "there is no JMX in Python", (False,)),
    "kafka_client": Unsupported(True, "there is no client object to replace"),
    "config_providers": Unsupported(True, "resolve such values before you pass them", ([], (), "", None)),
    "security_providers": Unsupported(True, _JAVA_CLASS, ("", None)),
    "ssl_engine_factory_class": Unsupported(True, f"{_JAVA_CLASS}: pass ssl_context", ("", None)),
    "ssl_provider": Unsupported(False, "OpenSSL is always used", ("", None)),
    "ssl_secure_random_implementation": Unsupported(False, "OpenSSL is always used", ("", None)),
    "ssl_keymanager_algorithm": Unsupported(False, "OpenSSL is always used", ("SunX509", "PKIX", "", None)),
    "ssl_trustmanager_algorithm": Unsupported(False, "OpenSSL is always used", ("PKIX", "", None)),
    "sasl_client_callback_handler_class": Unsupported(
        True, _JAVA_CLASS, ("software.amazon.msk.auth.iam.IAMClientCallbackHandler", "", None)
    ),
    "sasl_login_callback_handler_class": Unsupported(
        True,
        f"{_JAVA_CLASS}: pass sasl_oauth_token_provider",
        (
            f"{JAVA_OAUTH}OAuthBearerLoginCallbackHandler",
            f"{JAVA_OAUTH}secured.OAuthBearerLoginCallbackHandler",
            "",
            None,
        ),
    ),
    "sasl_login_class": Unsupported(True, _JAVA_CLASS, ("", None)),
    "sasl_oauthbearer_jwt_validator_class": Unsupported(False, _TOKENS, (f"{JAVA_OAUTH}DefaultJwtValidator", "", None)),
    "sasl_oauthbearer_clock_skew_seconds": Unsupported(False, _TOKENS, (30,)),
    "sasl_oauthbearer_expected_audience": Unsupported(False, _TOKENS, ([], (), "", None)),
    "sasl_oauthbearer_expected_issuer": Unsupported(False, _TOKENS, ("", None)),
    "sasl_oauthbearer_jwks_endpoint_url": Unsupported(False, _TOKENS, ("", None)),
    "sasl_oauthbearer_jwks_endpoint_refresh_ms": Unsupported(False, _TOKENS, (3600000,)),
    "sasl_oauthbearer_jwks_endpoint_retry_backoff_ms": Unsupported(False, _TOKENS, (100,)),
    "sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms": Unsupported(False, _TOKENS, (10000,)),
    "enable_ssl_certificate_verification": Unsupported(
        True,
        "without it, whoever is on the way to the broker can read and change everything. To trust the broker's "
        "certificate, put it, or the one of its authority, into a PEM file and name that as ssl.ca.location",
        (True, None),
    ),
    "enable_sasl_oauthbearer_unsecure_jwt": Unsupported(True, _PROVIDER, (False, None)),
    "https_ca_location": Unsupported(True, _ONE_TRUST, (None,)),
    "https_ca_pem": Unsupported(True, _ONE_TRUST, (None,)),
    "sasl_oauthbearer_method": Unsupported(True, "it must be default or oidc", ("default", "oidc", None)),
    "ssl_ca_certificate_stores": Unsupported(True, "pass ssl_context to use other stores", ("Root", None)),
    "ssl_curves_list": Unsupported(True, "pass ssl_context to set it", ("", None)),
    "ssl_sigalgs_list": Unsupported(True, "pass ssl_context to set it", ("", None)),
    "ssl_providers": Unsupported(True, "pass ssl_context to set it", ("", None)),
    "sasl_kerberos_kinit_cmd": Unsupported(False, _TICKETS, ("/usr/bin/kinit", "", None)),
    "sasl_kerberos_ticket_renew_window_factor": Unsupported(False, _TICKETS, (0.8,)),
    "sasl_kerberos_ticket_renew_jitter": Unsupported(False, _TICKETS, (0.05,)),
    "sasl_kerberos_min_time_before_relogin": Unsupported(False, _TICKETS, (60000,)),
}

#: Unsupported options by the prefix of their name, for names that are not in UNSUPPORTED.
UNSUPPORTED_PREFIXES: dict[str, Unsupported] = {
    "ssl_engine_": Unsupported(True, "OpenSSL's engines are not supported: pass ssl_context")
}


def find_unsupported(name: str) -> Unsupported | None:
    """Return the entry for this Python name, or None if the name is not listed as an unsupported option."""
    from .other_clients import EXPLAINED, EXPLAINED_PREFIXES  # on demand: most configurations have no such name

    prefixes = {**UNSUPPORTED_PREFIXES, **EXPLAINED_PREFIXES}
    by_prefix = (row for prefix, row in prefixes.items() if name.startswith(prefix))
    return UNSUPPORTED.get(name) or EXPLAINED.get(name) or next(by_prefix, None)


#: Older names of options in kafka-python that are accepted, with the present name.
OLDER_NAMES = {"socks5_proxy": "proxy_url"}

#: Dotted names of librdkafka and Java that are accepted, with the Python name of the option that each stands for.
ALIASES: dict[str, str] = {
    "ssl.ca.location": "ssl_cafile",
    "ssl.ca.pem": "ssl_truststore_certificates",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.certificate.pem": "ssl_keystore_certificate_chain",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.pem": "ssl_keystore_key",
    "ssl.crl.location": "ssl_crlfile",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.oauthbearer.client.id": "sasl_oauthbearer_client_credentials_client_id",
    "sasl.oauthbearer.client.secret": "sasl_oauthbearer_client_credentials_client_secret",
    "sasl.oauthbearer.assertion.jwt.template.file": "sasl_oauthbearer_assertion_template_file",
    "sasl.oauthbearer.jwt.retriever.class": "sasl_oauthbearer_grant_type",
    "oauth_cb": "sasl_oauth_token_provider",
    "metadata.broker.list": "bootstrap_servers",
    "topic.metadata.refresh.interval.ms": "metadata_max_age_ms",
    "bootstrap.resolve.timeout.ms": "bootstrap_timeout_ms",  # Java's: here, a failed lookup is one of several causes
    "socket.timeout.ms": "request_timeout_ms",
    "socket.receive.buffer.bytes": "receive_buffer_bytes",
    "socket.send.buffer.bytes": "send_buffer_bytes",
    "max.in.flight": "max_in_flight_requests_per_connection",
    "receive.message.max.size": "receive_message_max_bytes",
    "fetch.wait.max.ms": "fetch_max_wait_ms",
    "fetch.message.max.bytes": "max_partition_fetch_bytes",
    "queued.max.messages.kbytes": "max_buffered_bytes",
    "auto.commit.enable": "enable_auto_commit",
}

#: How many of the option's units one unit of the alias is.
FACTORS: dict[str, int] = {"queued.max.messages.kbytes": 1024}
#: Values that are written in another way here, by dotted name.
_VALUES: dict[str, dict[str, str]] = {
    "auto.offset.reset": {
        **dict.fromkeys(("smallest", "beginning"), "earliest"), **dict.fromkeys(("largest", "end"), "latest"),
        "error": "none",
    },
    "connections.max.idle.ms": {"0": "-1"},
    "topic.metadata.refresh.interval.ms": {"-1": str(INT64_MAX)},
    "bootstrap.resolve.timeout.ms": {"0": "30000"},  # the default: only Java's constructor differs
    "socket.receive.buffer.bytes": {"0": "-1"},
    "socket.send.buffer.bytes": {"0": "-1"},
}  # fmt: skip


def translated(name: str, value: object) -> object:
    """Return the value of the option or alias with this dotted name as this package writes it, in its unit."""
    if isinstance(value, bool) or not isinstance(value, (int, str)) or not (name in FACTORS or name in _VALUES):
        return value
    text = str(value).strip().lower()
    if name in FACTORS and text.isascii() and text.isdigit() and len(text) <= len(str(INT64_MAX)):
        return int(text) * FACTORS[name]
    found = _VALUES.get(name, {}).get(text)
    return value if found is None else found if isinstance(value, str) else int(found)
