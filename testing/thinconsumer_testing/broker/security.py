"""The security of a cluster's listeners: TLS, SASL mechanisms, and the users that may log in.

Owns the settings and their validation, under the names of Kafka's broker configs with ``_`` for ``.``. All brokers of a
cluster share them. Reads no file: :mod:`.tls_channel` loads the certificates.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from thinconsumer.errors import IllegalArgumentError

ANONYMOUS = "User:ANONYMOUS"  #: The principal of a connection without a login and without a client certificate.
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
CLIENT_AUTH = ("none", "requested", "required")
TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
#: The prefix of a user's name in a file of properties, as in the JAAS options of Kafka's PlainLoginModule.
USER_PREFIX = "user_"
_PEM = "-----BEGIN "


@dataclass(frozen=True, slots=True, repr=False)
class ListenerSecurity:
    """Security settings of all listeners of a cluster. The names are those of Kafka's broker configs.

    Args:
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        ssl_keystore_location: PEM file with the server's private key and certificate chain.
        ssl_keystore_certificate_chain, ssl_keystore_key: The same as PEM text, instead of the file.
        ssl_key_password: Password of an encrypted private key.
        ssl_truststore_location: PEM file with the certificates of the authorities that sign client certificates.
        ssl_truststore_certificates: The same as PEM text, instead of the file.
        ssl_client_auth: Whether clients must present a certificate: none, requested or required. With SSL, the subject
            of the certificate is the principal: ``User:CN=alice,O=Example``.
        ssl_enabled_protocols: TLS versions: TLSv1.2, TLSv1.3, or both.
        sasl_enabled_mechanisms: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.
        users: Passwords by user name, for PLAIN, and for SCRAM until AlterUserScramCredentials changes them.
        connections_max_reauth_ms: Limit of a login's lifetime, after which clients must authenticate again (KIP-368);
            0: no limit. The expiry of a token is another limit.
        connection_failed_authentication_delay_ms: Delay before a failed login is reported and the connection closed.
        sasl_oauthbearer_key: The key that verifies tokens: a PEM public key or certificate (RS256, ES256; needs the
            package ``cryptography``), or the secret for HS256. Empty: tokens are unsecured JWTs, with ``"alg":"none"``.
        sasl_oauthbearer_expected_audience: The token's ``aud`` must contain one of these, if given.
        sasl_oauthbearer_expected_issuer: The token's ``iss`` must be equal to this, if given.
        sasl_oauthbearer_required_scope: The token's ``scope`` must contain all of these.
        sasl_oauthbearer_sub_claim_name, sasl_oauthbearer_scope_claim_name: Claims with the principal and the scope.
        sasl_oauthbearer_clock_skew_seconds: Tolerance for the times in tokens that are verified with a key.

    Raises:
        IllegalArgumentError: A setting has an invalid value, is missing, or contradicts another.
    """

    security_protocol: str = "PLAINTEXT"
    ssl_keystore_location: str = ""
    ssl_keystore_certificate_chain: str = ""
    ssl_keystore_key: str = ""
    ssl_key_password: str = ""
    ssl_truststore_location: str = ""
    ssl_truststore_certificates: str = ""
    ssl_client_auth: str = "none"
    ssl_enabled_protocols: tuple[str, ...] = TLS_VERSIONS
    sasl_enabled_mechanisms: tuple[str, ...] = ()
    users: Mapping[str, str] = field(default_factory=dict)
    connections_max_reauth_ms: int = 0
    connection_failed_authentication_delay_ms: int = 100
    sasl_oauthbearer_key: str = ""
    sasl_oauthbearer_expected_audience: tuple[str, ...] = ()
    sasl_oauthbearer_expected_issuer: str = ""
    sasl_oauthbearer_required_scope: tuple[str, ...] = ()
    sasl_oauthbearer_sub_claim_name: str = "sub"
    sasl_oauthbearer_scope_claim_name: str = "scope"
    sasl_oauthbearer_clock_skew_seconds: int = 30

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, _parsed(one.name, getattr(self, one.name), str(one.type)))
        _require_one_of("security_protocol", self.security_protocol, PROTOCOLS)
        _require_one_of("ssl_client_auth", self.ssl_client_auth, CLIENT_AUTH)
        for version in self.ssl_enabled_protocols:
            _require_one_of("ssl_enabled_protocols", version, TLS_VERSIONS)
        for mechanism in self.sasl_enabled_mechanisms:
            _require_one_of("sasl_enabled_mechanisms", mechanism, MECHANISMS)
        self._check_tls()
        if self.uses_sasl and not self.sasl_enabled_mechanisms:
            raise IllegalArgumentError(f"{self.security_protocol} needs sasl_enabled_mechanisms, for example PLAIN")
        if self.sasl_enabled_mechanisms and not self.uses_sasl:
            raise IllegalArgumentError(
                f"sasl_enabled_mechanisms needs the security_protocol SASL_PLAINTEXT or SASL_SSL, not "
                f"{self.security_protocol}"
            )
        for name in self.users:
            if not name or "\0" in name:
                raise IllegalArgumentError(f"users: {name!r} is not a valid user name")

    def __repr__(self) -> str:
        mechanisms = f" {','.join(self.sasl_enabled_mechanisms)}" if self.uses_sasl else ""
        return f"<ListenerSecurity {self.security_protocol}{mechanisms}>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a ListenerSecurity contains passwords and cannot be pickled")

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether clients must log in with SASL."""
        return self.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> ListenerSecurity:
        """Build the settings from Kafka's dotted names, or the field names. ``user_alice`` is the password of alice.

        Raises:
            IllegalArgumentError: An unknown name, or an invalid value.
        """
        known = {one.name for one in fields(cls)}
        values: dict[str, Any] = {}
        users = _users(settings.get("users", {}))
        for name, value in settings.items():
            own = name.replace(".", "_")
            if own in known:
                values[own] = value
            elif name.startswith(USER_PREFIX):
                users[name[len(USER_PREFIX) :]] = str(value)
            else:
                close = difflib.get_close_matches(own, known, 1)
                hint = f"; did you mean {close[0].replace('_', '.')!r}?" if close else ""
                raise IllegalArgumentError(f"unknown security setting {name!r}{hint}")
        values["users"] = users
        return cls(**values)

    def as_settings(self) -> dict[str, Any]:
        """Return the settings by field name, secrets included, such that :meth:`of` restores them."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def _check_tls(self) -> None:
        if bool(self.ssl_keystore_certificate_chain) != bool(self.ssl_keystore_key):
            raise IllegalArgumentError("ssl_keystore_certificate_chain and ssl_keystore_key must be given together")
        for name in ("ssl_keystore_certificate_chain", "ssl_keystore_key", "ssl_truststore_certificates"):
            if (text := getattr(self, name)) and _PEM not in text:
                raise IllegalArgumentError(f"{name} is not PEM text: it must contain a line that begins with '{_PEM}'")
        if self.ssl_keystore_location and self.ssl_keystore_key:
            raise IllegalArgumentError("give either ssl_keystore_location or ssl_keystore_key, not both")
        if self.ssl_truststore_location and self.ssl_truststore_certificates:
            raise IllegalArgumentError("give either ssl_truststore_location or ssl_truststore_certificates, not both")
        if not self.ssl_enabled_protocols:
            raise IllegalArgumentError(f"ssl_enabled_protocols is empty; choose from {', '.join(TLS_VERSIONS)}")
        if not self.uses_tls:
            return
        if not (self.ssl_keystore_location or self.ssl_keystore_key):
            raise IllegalArgumentError(
                f"{self.security_protocol} needs the server's key and certificate: set ssl_keystore_location, or "
                "ssl_keystore_key and ssl_keystore_certificate_chain"
            )
        if self.ssl_client_auth != "none" and not (self.ssl_truststore_location or self.ssl_truststore_certificates):
            raise IllegalArgumentError(
                f"ssl_client_auth={self.ssl_client_auth} needs the authorities that sign client certificates: set "
                "ssl_truststore_location or ssl_truststore_certificates"
            )


def _users(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise IllegalArgumentError("users must be a mapping of passwords by user name")
    return {str(name): str(password) for name, password in value.items()}


def _parsed(name: str, value: Any, kind: str) -> Any:
    """Return a setting's value with the type of its field. Errors do not contain the value, which may be a secret."""
    if kind == "int":
        try:
            number = int(value)
        except (TypeError, ValueError):
            raise IllegalArgumentError(f"{name} is not a whole number") from None
        if number < 0:
            raise IllegalArgumentError(f"{name} must be at least 0")
        return number
    if kind == "str":
        return str(value)
    if kind.startswith("Mapping"):
        return _users(value)
    words = value.split(",") if isinstance(value, str) else value
    try:
        return tuple(word.strip() for word in words if word.strip())
    except (TypeError, AttributeError):
        raise IllegalArgumentError(f"{name} is not a list of words") from None


def _require_one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise IllegalArgumentError(f"{name}: {value!r} is none of {', '.join(known)}")
