"""The options of TLS and SASL, declared once for all clients.

Names are kafka-python's if it has one, else Java's with underscores; the defaults of Java's options are Java's, except
for stores: their type is recognized. Sources: Kafka's ``SslConfigs`` and ``SaslConfigs``, KIP-651 (PEM text), KIP-768
(OIDC), KIP-342 (extensions), librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..support.lazy_dataclass import dataclass, declared_fields
from .declare import Option, as_passed, is_changed, section
from .kinds import INT64, POSITIVE_INT32, WORD, Boolean, Choice, Integer, Text
from .security_kinds import (
    STORE_TYPES,
    STORE_TYPES_REFUSED,
    TLS_REFUSED,
    CipherSuites,
    ExistingFile,
    Extensions,
    Fraction,
    HostNameCheck,
    HttpUrl,
    JaasText,
    KerberosName,
    PemText,
    SecretText,
    SslContext,
    TlsProtocols,
    TokenProvider,
)
from .values import SECURITY_PROTOCOLS

_security = section("Security")
_tls = section("TLS")
_login = section("Logins")

_FILE = ExistingFile()
_PASSWORD = SecretText()
_CLAIM = Text(may_be_empty=False, pattern=r"[!-~]{1,100}", pattern_says="at most 100 printable ASCII characters")
_STORE_TYPE = Choice(STORE_TYPES, STORE_TYPES_REFUSED)

SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, init=False, eq=False)
class SecurityOptions:
    """The options of TLS and SASL, and the base class of the options of every client.

    Subclasses are dataclasses without generated methods. For a hundred options, generating ``__init__`` and ``__eq__``
    takes milliseconds at the start of every process with a consumer.

    Secrets are :class:`~.security_kinds.Secret` texts. ``repr`` shows them as ``'***'``, and only options that differ
    from their default.
    """

    security_protocol: str = _security(
        Choice(SECURITY_PROTOCOLS),
        "PLAINTEXT",
        "How to connect to brokers: with TLS if it ends in `SSL`, with a login if it begins with `SASL_`.",
    )

    ssl_context: Any = _tls(
        SslContext(), None, "A context to use instead of all other `ssl_` options, which must then be left out."
    )
    ssl_check_hostname: bool = _tls(
        Boolean(),
        True,
        "Whether the broker's certificate must be for the host name that the client connects to. Without this check, "
        "whoever has any certificate of the same authorities can pose as the broker.",
    )
    ssl_endpoint_identification_algorithm: str = _tls(
        HostNameCheck(), "https", "Java's name for `ssl_check_hostname`: the empty text switches the check off."
    )
    ssl_cafile: str | None = _tls(
        _FILE,
        None,
        "PEM file with the certificates of authorities to trust. Without this and a trust store: those of the system.",
    )
    ssl_certfile: str | None = _tls(
        _FILE, None, "PEM file with the client's certificate, followed by those of intermediate authorities."
    )
    ssl_keyfile: str | None = _tls(
        _FILE, None, "PEM file with the client's private key. None: it is in `ssl_certfile`."
    )
    ssl_password: str | None = _tls(_PASSWORD, None, "Password of the private key.")
    ssl_crlfile: str | None = _tls(
        _FILE, None, "PEM file with a certificate revocation list; the broker's certificate must not be on it."
    )
    ssl_ciphers: str | None = _tls(WORD, None, "Cipher suites of TLS 1.2, as an OpenSSL cipher list.")
    ssl_cipher_suites: tuple[str, ...] | None = _tls(
        CipherSuites(), None, "Cipher suites to allow, by their IANA or OpenSSL names. None: OpenSSL's default."
    )
    ssl_protocol: str = _tls(
        Choice(("TLSv1.3", "TLSv1.2", "TLS"), TLS_REFUSED), "TLSv1.3", "The newest version of TLS to use."
    )
    ssl_enabled_protocols: tuple[str, ...] = _tls(TlsProtocols(), ("TLSv1.2", "TLSv1.3"), "The versions of TLS to use.")
    ssl_truststore_location: str | None = _tls(
        _FILE, None, "Trust store (PKCS12 or PEM) with the certificates of authorities to trust."
    )
    ssl_truststore_type: str | None = _tls(_STORE_TYPE, None, "Type of the trust store. None: as its content says.")
    ssl_truststore_certificates: str | None = _tls(
        PemText("CERTIFICATE"), None, "Certificates of authorities to trust, as PEM text."
    )
    ssl_truststore_password: str | None = _tls(_PASSWORD, None, "Password of a PKCS12 trust store.")
    ssl_keystore_location: str | None = _tls(
        _FILE, None, "Key store (PKCS12 or PEM) with the client's private key and certificates."
    )
    ssl_keystore_type: str | None = _tls(_STORE_TYPE, None, "Type of the key store. None: as its content says.")
    ssl_keystore_password: str | None = _tls(_PASSWORD, None, "Password of a PKCS12 key store.")
    ssl_keystore_key: str | None = _tls(PemText("PRIVATE KEY"), None, "The client's private key, as PEM text.")
    ssl_keystore_certificate_chain: str | None = _tls(
        PemText("CERTIFICATE"),
        None,
        "The client's certificate as PEM text, followed by those of intermediate authorities.",
    )
    ssl_key_password: str | None = _tls(_PASSWORD, None, "Password of the private key; Java's name for `ssl_password`.")

    sasl_mechanism: str | None = _login(
        Choice(SASL_MECHANISMS),
        None,
        "How to log in. None: as `sasl_jaas_config` says, if its module has only one mechanism.",
    )
    sasl_plain_username: str | None = _login(
        Text(may_be_empty=False, pattern=r"[^\0]*", pattern_says="without NUL characters"),
        None,
        "User name for PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512.",
    )
    sasl_plain_password: str | None = _login(_PASSWORD, None, "Password for PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512.")
    sasl_jaas_config: str | None = _login(
        JaasText(),
        None,
        "Credentials in the form of Java's client: `org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="u" password="p";`. Also the login modules of SCRAM, OAUTHBEARER, Kerberos and AWS_MSK_IAM.',
    )
    sasl_oauth_token_provider: Any = _login(
        TokenProvider(),
        None,
        "Returns tokens for OAUTHBEARER, and may block. It runs inside calls of the client, before the last token "
        "expires. kafka-python's `AbstractTokenProvider` and confluent-kafka's `oauth_cb` work.",
    )
    sasl_oauthbearer_token_endpoint_url: str | None = _login(
        HttpUrl(),
        None,
        "OAUTHBEARER: where to request tokens with the client credentials below (OIDC, KIP-768; extra `oidc`).",
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = _login(
        WORD, None, "OAUTHBEARER: the client id at the token endpoint."
    )
    sasl_oauthbearer_client_credentials_client_secret: str | None = _login(
        SecretText(what="client secret"), None, "OAUTHBEARER: the client secret at the token endpoint."
    )
    sasl_oauthbearer_scope: str | None = _login(WORD, None, "OAUTHBEARER: the scope to request.")
    sasl_oauthbearer_scope_claim_name: str = _login(_CLAIM, "scope", "OAUTHBEARER: the token's claim with the scope.")
    sasl_oauthbearer_sub_claim_name: str = _login(_CLAIM, "sub", "OAUTHBEARER: the token's claim with the user.")
    sasl_oauthbearer_header_urlencode: bool = _login(
        Boolean(),
        False,
        "OAUTHBEARER: whether to URL-encode client id and secret, as RFC 6749 says and some providers expect.",
    )
    sasl_oauthbearer_extensions: Mapping[str, str] | None = _login(
        Extensions(), None, "OAUTHBEARER: extensions to send with each token (KIP-342)."
    )
    sasl_kerberos_service_name: str = _login(WORD, "kafka", "GSSAPI: the first part of the brokers' principals.")
    sasl_kerberos_domain_name: str | None = _login(
        WORD, None, "GSSAPI: the second part of the brokers' principals. None: the host name of each broker."
    )
    sasl_kerberos_name: Any = _login(
        KerberosName(), None, "GSSAPI: the brokers' whole principal, instead of the two options above."
    )
    sasl_kerberos_principal: str | None = _login(
        WORD, None, "GSSAPI: the client's principal. None: the one of the ticket cache or key table."
    )
    sasl_kerberos_keytab: str | None = _login(
        _FILE, None, "GSSAPI: key table of the client. None: the ticket cache is used."
    )
    sasl_aws_msk_iam_region: str | None = _login(
        WORD, None, "AWS_MSK_IAM: the region. None: as the broker's host name or the AWS settings say."
    )
    sasl_aws_msk_iam_profile: str | None = _login(WORD, None, "AWS_MSK_IAM: the profile of the AWS settings to use.")
    sasl_aws_msk_iam_role_arn: str | None = _login(WORD, None, "AWS_MSK_IAM: a role to assume.")
    sasl_aws_msk_iam_role_session_name: str | None = _login(
        WORD, None, "AWS_MSK_IAM: name of the session of the assumed role."
    )
    sasl_aws_msk_iam_role_external_id: str | None = _login(
        SecretText(what="external id"), None, "AWS_MSK_IAM: the external id that the role demands."
    )
    sasl_aws_msk_iam_sts_region: str | None = _login(
        WORD, None, "AWS_MSK_IAM: the region of the service that issues the role's credentials."
    )
    sasl_login_connect_timeout_ms: int | None = _login(
        POSITIVE_INT32,
        None,
        "How long connecting to the token endpoint may take. None: `socket_connection_setup_timeout_ms`.",
    )
    sasl_login_read_timeout_ms: int | None = _login(
        POSITIVE_INT32, None, "How long the token endpoint's answer may take. None: `request_timeout_ms`."
    )
    sasl_login_retry_backoff_ms: int = _login(
        INT64,
        100,
        "Backoff after the first failure to get a token; doubles with each consecutive failure. When not given, at "
        "most `sasl_login_retry_backoff_max_ms`.",
    )
    sasl_login_retry_backoff_max_ms: int = _login(
        INT64,
        10000,
        "Longest backoff after failures to get a token. When not given, at least `sasl_login_retry_backoff_ms`.",
    )
    sasl_login_refresh_window_factor: float = _login(
        Fraction(0.5, 1.0), 0.8, "A token is replaced after this part of its lifetime."
    )
    sasl_login_refresh_window_jitter: float = _login(
        Fraction(0.0, 0.25), 0.05, "Largest random addition to `sasl_login_refresh_window_factor`."
    )
    sasl_login_refresh_min_period_seconds: int = _login(
        Integer(at_least=0, at_most=900), 60, "Shortest time between two requests for tokens, in seconds."
    )
    sasl_login_refresh_buffer_seconds: int = _login(
        Integer(at_least=0, at_most=3600), 300, "A token is replaced at least this long before it expires, in seconds."
    )

    @classmethod
    def options(cls) -> dict[str, Option]:
        """Return every option's declaration by name, in the order of the docs: by section, TLS and SASL last."""
        fields, last = declared_fields(cls).items(), declared_fields(SecurityOptions)
        found = [(name, declared.metadata["option"]) for name, declared in fields if "option" in declared.metadata]
        sections = list(dict.fromkeys(option.section for _, option in found))
        return dict(sorted(found, key=lambda entry: (entry[0] in last, sections.index(entry[1].section))))

    def __init__(self, **values: Any) -> None:
        """Set the given values, and all other options to their defaults, without any check."""
        for name, declared in declared_fields(type(self)).items():
            object.__setattr__(self, name, values.pop(name, declared.default))
        if values:
            raise TypeError(f"{type(self).__name__} has no options {', '.join(values)}")
        self.__post_init__()

    def __post_init__(self) -> None:
        """Do nothing; subclasses may check their values."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        # A mapping, such as the extensions of tokens, has no hash.
        return hash(tuple(frozenset(v.items()) if isinstance(v, Mapping) else v for v in self._values()))

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.options())

    def __repr__(self) -> str:
        values = ((name, getattr(self, name), option) for name, option in self.options().items())
        changed = (entry for entry in values if is_changed(entry[1], entry[2].default))
        shown = (f"{name}={option.kind.show(as_passed(value))}" for name, value, option in changed)
        return f"{type(self).__name__}({', '.join(shown)})"
