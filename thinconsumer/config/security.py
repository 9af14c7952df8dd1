"""The options of TLS and SASL, declared once for all clients.

Names and defaults are kafka-python's where it has the option, else Java's, with underscores; but the type of a store is
recognized by default, and the options of AWS_MSK_IAM are this package's. Sources: Kafka's ``SslConfigs``,
``SaslConfigs``, KIP-651 (PEM), KIP-768 (OIDC), KIP-1139 (assertions), KIP-342 (extensions), librdkafka's
CONFIGURATION.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..support.lazy_dataclass import dataclass, declared_fields
from .declare import Option, as_passed, is_changed, section
from .kinds import INT64, POSITIVE_INT32, WORD, Boolean, Choice, Integer, Text
from .security_kinds import (
    CLIENT_CREDENTIALS,
    STORE_TYPE,
    TLS_REFUSED,
    CipherSuites,
    ExistingFile,
    Extensions,
    Fraction,
    GrantType,
    HostNameCheck,
    HttpUrl,
    ImdsConfig,
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

_AWS_IAM = "use sasl_mechanism='AWS_MSK_IAM', or sasl_oauth_token_provider"

SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, init=False, eq=False)
class SecurityOptions:
    """The options of TLS and SASL, and the base class of the options of every client.

    This class and its subclasses are dataclasses without generated methods: for a hundred options, generating
    ``__init__`` and ``__eq__`` takes milliseconds at the start of every process with a consumer.

    ``repr`` shows the options that differ from their default, and secrets as ``'***'``.
    """

    security_protocol: str = _security(
        Choice(SECURITY_PROTOCOLS),
        "How to connect to brokers: with TLS if it ends in `SSL`, with a login if it begins with `SASL_`.",
        "PLAINTEXT",
    )

    ssl_context: Any = _tls(
        SslContext(), "A context to use instead of all other `ssl_` options, which must then be left out."
    )
    ssl_check_hostname: bool = _tls(
        Boolean(),
        "Whether the broker's certificate must be for the host name that the client connects to. Without this check, "
        "whoever has any certificate of the same authorities can pose as the broker.",
        True,
    )
    ssl_endpoint_identification_algorithm: str = _tls(
        HostNameCheck(), "Java's name for `ssl_check_hostname`: the empty text switches the check off.", "https"
    )
    ssl_cafile: str | None = _tls(
        _FILE,
        "PEM file with the certificates of authorities to trust. Without this and a trust store: those of the system.",
    )
    ssl_certfile: str | None = _tls(
        _FILE, "PEM file with the client's certificate, followed by those of intermediate authorities."
    )
    ssl_keyfile: str | None = _tls(_FILE, "PEM file with the client's private key. None: it is in `ssl_certfile`.")
    ssl_password: str | None = _tls(_PASSWORD, "Password of the private key.")
    ssl_crlfile: str | None = _tls(
        _FILE, "PEM file with a certificate revocation list; the broker's certificate must not be on it."
    )
    ssl_ciphers: str | None = _tls(WORD, "Cipher suites of TLS 1.2, as an OpenSSL cipher list.")
    ssl_cipher_suites: tuple[str, ...] | None = _tls(
        CipherSuites(), "Cipher suites to allow, by their IANA or OpenSSL names. None: OpenSSL's default."
    )
    ssl_protocol: str = _tls(
        Choice(("TLSv1.3", "TLSv1.2", "TLS"), TLS_REFUSED), "The newest version of TLS to use.", "TLSv1.3"
    )
    ssl_enabled_protocols: tuple[str, ...] = _tls(TlsProtocols(), "The versions of TLS to use.", ("TLSv1.2", "TLSv1.3"))
    ssl_truststore_location: str | None = _tls(
        _FILE, "Trust store (PKCS12 or PEM) with the certificates of authorities to trust."
    )
    ssl_truststore_type: str | None = _tls(STORE_TYPE, "Type of the trust store. None: as its content says.")
    ssl_truststore_certificates: str | None = _tls(
        PemText("CERTIFICATE"), "Certificates of authorities to trust, as PEM text."
    )
    ssl_truststore_password: str | None = _tls(_PASSWORD, "Password of a PKCS12 trust store.")
    ssl_keystore_location: str | None = _tls(
        _FILE, "Key store (PKCS12 or PEM) with the client's private key and certificates."
    )
    ssl_keystore_type: str | None = _tls(STORE_TYPE, "Type of the key store. None: as its content says.")
    ssl_keystore_password: str | None = _tls(_PASSWORD, "Password of a PKCS12 key store.")
    ssl_keystore_key: str | None = _tls(PemText("PRIVATE KEY"), "The client's private key, as PEM text.")
    ssl_keystore_certificate_chain: str | None = _tls(
        PemText("CERTIFICATE"), "The client's certificate as PEM text, followed by those of intermediate authorities."
    )
    ssl_key_password: str | None = _tls(_PASSWORD, "Password of the private key; Java's name for `ssl_password`.")

    sasl_mechanism: str | None = _login(
        Choice(SASL_MECHANISMS),
        "How to log in. None: as `sasl_jaas_config` says, if its module has only one mechanism.",
    )
    sasl_plain_username: str | None = _login(
        Text(may_be_empty=False, pattern=r"[^\0]*", pattern_says="without NUL characters"),
        "User name for PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512.",
    )
    sasl_plain_password: str | None = _login(_PASSWORD, "Password for PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512.")
    sasl_jaas_config: str | None = _login(
        JaasText(),
        "Credentials in the form of Java's client: `org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="u" password="p";`. Also the login modules of SCRAM, OAUTHBEARER, Kerberos and AWS_MSK_IAM.',
    )
    sasl_oauth_token_provider: Any = _login(
        TokenProvider(),
        "Returns tokens for OAUTHBEARER, and may block. It runs inside calls of the client, before the last token "
        "expires. kafka-python's `AbstractTokenProvider` and confluent-kafka's `oauth_cb` work.",
    )
    sasl_oauthbearer_token_endpoint_url: str | None = _login(
        HttpUrl(),
        "OAUTHBEARER: where to request tokens (OIDC, KIP-768; extra `oidc`), not through `proxy_url`. None: Azure's "
        "address, for `azure_imds`.",
    )
    sasl_oauthbearer_grant_type: str = _login(
        GrantType(),
        "OAUTHBEARER: what to request tokens with. `client_credentials`: a client id with a secret or an assertion. "
        "The other: an assertion alone (RFC 7523). The class names of Java's `JwtRetriever`s are accepted, too.",
        CLIENT_CREDENTIALS,
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = _login(
        WORD, "OAUTHBEARER: the client id at the token endpoint."
    )
    sasl_oauthbearer_client_credentials_client_secret: str | None = _login(
        SecretText(what="client secret"), "OAUTHBEARER: the client secret at the token endpoint."
    )
    sasl_oauthbearer_assertion_file: str | None = _login(
        _FILE, "OAUTHBEARER: file with an assertion, a signed JWT. It is read anew for each token."
    )
    sasl_oauthbearer_assertion_private_key_file: str | None = _login(
        _FILE,
        "OAUTHBEARER: PEM file with the private key to sign assertions with (extras `oidc` and `pkcs12`). It is read "
        "anew for each token.",
    )
    sasl_oauthbearer_assertion_private_key_pem: str | None = _login(
        PemText("PRIVATE KEY"), "OAUTHBEARER: the private key to sign assertions with, as PEM text."
    )
    sasl_oauthbearer_assertion_private_key_passphrase: str | None = _login(
        _PASSWORD, "OAUTHBEARER: password of the private key to sign assertions with."
    )
    sasl_oauthbearer_assertion_algorithm: str = _login(
        Choice(("RS256", "ES256")), "OAUTHBEARER: how to sign assertions.", "RS256"
    )
    sasl_oauthbearer_assertion_claim_aud: str | None = _login(
        WORD, "OAUTHBEARER: the claim `aud` of assertions: the token endpoint, as it names itself."
    )
    sasl_oauthbearer_assertion_claim_iss: str | None = _login(
        WORD, "OAUTHBEARER: the claim `iss` of assertions. None: the client id, with `client_credentials`."
    )
    sasl_oauthbearer_assertion_claim_sub: str | None = _login(
        WORD, "OAUTHBEARER: the claim `sub` of assertions. None: the client id, with `client_credentials`."
    )
    sasl_oauthbearer_assertion_claim_exp_seconds: int = _login(
        Integer(at_least=1, at_most=86400), "OAUTHBEARER: how long an assertion is valid, in seconds.", 300
    )
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = _login(
        Integer(at_least=0, at_most=3600),
        "OAUTHBEARER: for how long an assertion is valid already, in seconds: the clocks may differ.",
        60,
    )
    sasl_oauthbearer_assertion_claim_jti_include: bool = _login(
        Boolean(), "OAUTHBEARER: whether each assertion has a random `jti`, which some servers demand.", False
    )
    sasl_oauthbearer_assertion_template_file: str | None = _login(
        _FILE,
        "OAUTHBEARER: JSON file with the objects `header` and `payload`, whose values assertions get. It is read anew "
        "for each token.",
    )
    sasl_oauthbearer_metadata_authentication_type: str = _login(
        Choice(("none", "azure_imds"), {"aws_iam": _AWS_IAM}),
        "OAUTHBEARER: `azure_imds` requests tokens with the managed identity of an Azure machine (extra `oidc`).",
        "none",
    )
    sasl_oauthbearer_config: str | None = _login(
        ImdsConfig(),
        "OAUTHBEARER: for `azure_imds`: `query=api-version=2018-02-01&resource=...`, and `&client_id=...`.",
    )
    sasl_oauthbearer_scope: str | None = _login(WORD, "OAUTHBEARER: the scope to request.")
    sasl_oauthbearer_scope_claim_name: str = _login(_CLAIM, "OAUTHBEARER: the token's claim with the scope.", "scope")
    sasl_oauthbearer_sub_claim_name: str = _login(_CLAIM, "OAUTHBEARER: the token's claim with the user.", "sub")
    sasl_oauthbearer_header_urlencode: bool = _login(
        Boolean(),
        "OAUTHBEARER: whether to URL-encode client id and secret, as RFC 6749 says and some providers expect.",
        False,
    )
    sasl_oauthbearer_extensions: Mapping[str, str] | None = _login(
        Extensions(), "OAUTHBEARER: extensions to send with each token (KIP-342)."
    )
    sasl_kerberos_service_name: str = _login(WORD, "GSSAPI: the first part of the brokers' principals.", "kafka")
    sasl_kerberos_domain_name: str | None = _login(
        WORD, "GSSAPI: the second part of the brokers' principals. None: the host name of each broker."
    )
    sasl_kerberos_name: Any = _login(
        KerberosName(), "GSSAPI: the brokers' whole principal, instead of the two options above."
    )
    sasl_kerberos_principal: str | None = _login(
        WORD, "GSSAPI: the client's principal. None: the one of the ticket cache or key table."
    )
    sasl_kerberos_keytab: str | None = _login(_FILE, "GSSAPI: key table of the client. None: the ticket cache is used.")
    sasl_aws_msk_iam_region: str | None = _login(
        WORD, "AWS_MSK_IAM: the region. None: as the broker's host name or the AWS settings say."
    )
    sasl_aws_msk_iam_profile: str | None = _login(WORD, "AWS_MSK_IAM: the profile of the AWS settings to use.")
    sasl_aws_msk_iam_role_arn: str | None = _login(WORD, "AWS_MSK_IAM: a role to assume.")
    sasl_aws_msk_iam_role_session_name: str | None = _login(
        WORD, "AWS_MSK_IAM: name of the session of the assumed role."
    )
    sasl_aws_msk_iam_role_external_id: str | None = _login(
        SecretText(what="external id"), "AWS_MSK_IAM: the external id that the role demands."
    )
    sasl_aws_msk_iam_sts_region: str | None = _login(
        WORD, "AWS_MSK_IAM: the region of the service that issues the role's credentials."
    )
    sasl_login_connect_timeout_ms: int | None = _login(
        POSITIVE_INT32,
        "How long connecting to the token endpoint may take. None: `socket_connection_setup_timeout_ms`.",
    )
    sasl_login_read_timeout_ms: int | None = _login(
        POSITIVE_INT32, "How long the token endpoint's answer may take. None: `request_timeout_ms`."
    )
    sasl_login_retry_backoff_ms: int = _login(
        INT64,
        "Backoff after the first failure to get a token; doubles with each consecutive failure. When not given, at "
        "most `sasl_login_retry_backoff_max_ms`.",
        100,
    )
    sasl_login_retry_backoff_max_ms: int = _login(
        INT64,
        "Longest backoff after failures to get a token. When not given, at least `sasl_login_retry_backoff_ms`.",
        10000,
    )
    sasl_login_refresh_window_factor: float = _login(
        Fraction(0.5, 1.0), "A token is replaced after this part of its lifetime.", 0.8
    )
    sasl_login_refresh_window_jitter: float = _login(
        Fraction(0.0, 0.25), "Largest random addition to `sasl_login_refresh_window_factor`.", 0.05
    )
    sasl_login_refresh_min_period_seconds: int = _login(
        Integer(at_least=0, at_most=900), "Shortest time between two requests for tokens, in seconds.", 60
    )
    sasl_login_refresh_buffer_seconds: int = _login(
        Integer(at_least=0, at_most=3600), "A token is replaced at least this long before it expires, in seconds.", 300
    )

    @classmethod
    def options(cls) -> dict[str, Option]:
        """Return every option's declaration by name, in the order of the docs: by section, TLS and SASL last."""
        fields, last = declared_fields(cls).items(), declared_fields(SecurityOptions)
        found = {name: declared.metadata["option"] for name, declared in fields if "option" in declared.metadata}
        sections = list(dict.fromkeys(option.section for option in found.values()))
        return dict(sorted(found.items(), key=lambda entry: (entry[0] in last, sections.index(entry[1].section))))

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
