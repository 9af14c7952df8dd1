"""Secured listeners of a cluster: TLS, SASL and ACLs as properties of brokers, and the client options to use them.

Owns configuration and files. Starts nothing. ``one_of_each`` has every kind of listener, so that one cluster serves
nearly all tests.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import layout
from .certificates import Authority, Certificate
from .kdc import Kdc
from .oidc import Issuer

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SERVICE = "kafka"
#: Passwords by user, for PLAIN and SCRAM.
USERS = {"alice": "alice-secret", "bob": "bob-secret", "admin": "admin-secret"}
#: Secrets by client id, at the token endpoint.
CLIENTS = {"billing": "billing-secret"}
#: Clients log in again at 85 to 95 % of it: a machine that stands still for 0.5 s is in time, with 5 s it was not.
REAUTHENTICATION_MS = 10_000
MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
}
VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
#: Disconnected sessions and re-authentications are logged at DEBUG only.
DEBUG_LOGGERS = ("kafka.network.Processor", "org.apache.kafka.common.security.authenticator.SaslServerAuthenticator")
EXPIRED_LINE, REAUTHENTICATION_LINE = "Disconnecting expired channel", "Beginning re-authentication"


@dataclass(frozen=True)
class Listener:
    """One listener that every broker has besides PLAINTEXT.

    Args:
        name: the listener's name.
        protocol: SSL, SASL_PLAINTEXT or SASL_SSL.
        mechanisms: what ``sasl.enabled.mechanisms`` lists.
        client_auth: none, requested or required.
        max_reauth_ms: ``connections.max.reauth.ms``, 0 for none.
        certificate: the name of one of the certificates in ``Security.certificates``.
        checks_jwt: whether OAUTHBEARER tokens are verified with the issuer's JWKS; unsecured ones are accepted if not.
        options: more properties, without the listener's prefix.
    """

    name: str
    protocol: str
    mechanisms: tuple[str, ...] = ()
    client_auth: str = "none"
    max_reauth_ms: int = 0
    certificate: str = "broker"
    checks_jwt: bool = False
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")


@dataclass
class Security:
    """A cluster's security settings. The listener PLAINTEXT stays: brokers and administration use it as a super user.

    ``authorizes`` starts StandardAuthorizer; every principal may use resources without an ACL.
    """

    listeners: Sequence[Listener]
    users: Mapping[str, str] = field(default_factory=lambda: dict(USERS))
    authority: Authority | None = None
    certificates: Mapping[str, Certificate] = field(default_factory=dict)
    issuer: Issuer | None = None
    kdc: Kdc | None = None
    authorizes: bool = False
    super_users: Sequence[str] = ("User:ANONYMOUS", "User:admin")

    def listener(self, name: str) -> Listener:
        return next(each for each in self.listeners if each.name == name)

    # -- of brokers

    def properties(self, base: Mapping[str, object], ports: Mapping[str, int], folder: Path) -> dict[str, object]:
        """Return the properties of one broker: ``base`` with the listeners added; ``ports`` by listener.

        Files are copied into ``folder``, which is the only one that a container sees.
        """
        found = layout.with_listeners(base, {each.name: (each.protocol, ports[each.name]) for each in self.listeners})
        for listener in self.listeners:
            prefix = f"listener.name.{listener.name.lower()}."
            options = {"num.network.threads": 1, **self._tls(listener, folder), **self._sasl(listener, folder)}
            found.update({prefix + name: value for name, value in {**options, **listener.options}.items()})
        if self.authorizes:
            found["authorizer.class.name"] = AUTHORIZER
            found["super.users"] = ";".join(self.super_users)
            found["allow.everyone.if.no.acl.found"] = "true"
        return found

    def java_options(self, folder: Path) -> list[str]:
        options = []
        if self.issuer is not None:
            options.append(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.issuer.jwks_url}")
        if self.kdc is not None:
            options.append(f"-Djava.security.krb5.conf={_copied(self.kdc.config, folder)}")
        return options

    def format_options(self) -> list[str]:
        """Return the options of StorageTool that write SCRAM credentials into the first metadata."""
        if not any(set(SCRAM) & set(each.mechanisms) for each in self.listeners):
            return []
        credentials = [
            f"{mechanism}=[name={user},password={password}]"
            for mechanism in SCRAM
            for user, password in self.users.items()
        ]
        return [word for credential in credentials for word in ("--add-scram", credential)]

    def _tls(self, listener: Listener, folder: Path) -> dict[str, object]:
        if not listener.uses_tls:
            return {}
        assert self.authority is not None
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": _copied(self.certificates[listener.certificate].keystore_file, folder),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": _copied(self.authority.ca_file, folder),
            "ssl.client.auth": listener.client_auth,
            # "O=trustme,OU=Testing cert,CN=carol" becomes "carol", so that ACLs of tests can be read.
            "ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/,DEFAULT",
        }

    def _sasl(self, listener: Listener, folder: Path) -> dict[str, object]:
        if not listener.mechanisms:
            return {}
        found: dict[str, object] = {"sasl.enabled.mechanisms": ",".join(listener.mechanisms)}
        for mechanism in listener.mechanisms:
            prefix = f"{mechanism.lower()}."
            found[f"{prefix}sasl.jaas.config"] = self._jaas(mechanism, listener, folder)
            if listener.max_reauth_ms:
                found[f"{prefix}connections.max.reauth.ms"] = listener.max_reauth_ms
        if listener.checks_jwt:
            assert self.issuer is not None
            found["oauthbearer.sasl.server.callback.handler.class"] = VALIDATOR
            found["sasl.oauthbearer.jwks.endpoint.url"] = self.issuer.jwks_url
            found["sasl.oauthbearer.expected.issuer"] = self.issuer.url
        if "GSSAPI" in listener.mechanisms:
            found["sasl.kerberos.service.name"] = SERVICE
        return found

    def _jaas(self, mechanism: str, listener: Listener, folder: Path) -> str:
        options: dict[str, str] = {}
        if mechanism == "PLAIN":
            options = {f"user_{user}": password for user, password in self.users.items()}
        elif mechanism == "OAUTHBEARER" and not listener.checks_jwt:
            options = {"unsecuredLoginStringClaim_sub": "broker"}
        elif mechanism == "GSSAPI":
            assert self.kdc is not None
            principal = f"{SERVICE}/localhost"
            keytab = _copied(self.kdc.keytab(principal), folder)
            options = {"principal": f"{principal}@{self.kdc.realm}", "keyTab": str(keytab)}
            options |= {"useKeyTab": "true", "storeKey": "true"}
        words = "".join(f' {name}="{value}"' for name, value in options.items())
        return f"{MODULES[mechanism]} required{words};"

    # -- of clients

    def client(self, name: str, mechanism: str = "", user: str = "alice") -> dict[str, Any]:
        """Return the options by which a client uses a listener, under kafka-python's names; without bootstrap servers.

        The authority is trusted. ``mechanism`` is for listeners with several. A token provider for OAUTHBEARER is not
        in it.
        """
        listener = self.listener(name)
        options: dict[str, Any] = {"security_protocol": listener.protocol}
        if listener.uses_tls:
            assert self.authority is not None
            options["ssl_cafile"] = str(self.authority.ca_file)
        if listener.mechanisms:
            mechanism = mechanism or listener.mechanisms[0]
            options["sasl_mechanism"] = mechanism
            if mechanism in ("PLAIN", *SCRAM):
                options |= {"sasl_plain_username": user, "sasl_plain_password": self.users[user]}
            if mechanism == "GSSAPI":
                options["sasl_kerberos_service_name"] = SERVICE
        return options


def client_certificate(certificate: Certificate) -> dict[str, str]:
    """Return the options by which a client shows its certificate, under kafka-python's names."""
    return {"ssl_certfile": str(certificate.cert_file), "ssl_keyfile": str(certificate.key_file)}


def one_of_each(folder: Path, issuer: Issuer, kdc: Kdc | None = None) -> Security:
    """Return a security with every kind of listener; GSSAPI only with a KDC.

    Certificates by name: "broker", "elsewhere" (another host's), "expired", and "carol", a client's.
    """
    authority = Authority(folder)
    logins = ("PLAIN", *SCRAM)
    all_logins = (*logins, "OAUTHBEARER", *(["GSSAPI"] if kdc else []))
    listeners = [
        Listener("TLS", "SSL"),
        Listener("TLS12", "SSL", client_auth="required", options={"ssl.enabled.protocols": "TLSv1.2"}),
        Listener("ASKED", "SSL", client_auth="requested"),
        Listener("MUTUAL", "SSL", client_auth="required"),
        Listener("ELSEWHERE", "SSL", certificate="elsewhere"),
        Listener("EXPIRED", "SSL", certificate="expired"),
        Listener("LOGIN", "SASL_PLAINTEXT", logins),
        Listener("SECURE", "SASL_SSL", logins),
        Listener("PLAINONLY", "SASL_PLAINTEXT", ("PLAIN",)),
        Listener("SHORT", "SASL_SSL", all_logins, max_reauth_ms=REAUTHENTICATION_MS, checks_jwt=True),
        Listener("UNSECURED", "SASL_PLAINTEXT", ("OAUTHBEARER",)),
        Listener("OIDC", "SASL_SSL", ("OAUTHBEARER",), checks_jwt=True),
    ]
    if kdc is not None:
        listeners.append(Listener("KERBEROS", "SASL_PLAINTEXT", ("GSSAPI",)))
    certificates = {
        "broker": authority.issue("broker", "localhost", "127.0.0.1"),
        "elsewhere": authority.issue("elsewhere", "elsewhere.test"),
        "expired": authority.issue("expired", "localhost", "127.0.0.1", expired=True),
        "carol": authority.issue("carol", "carol.test"),
    }
    return Security(listeners, authority=authority, certificates=certificates, issuer=issuer, kdc=kdc, authorizes=True)


def _copied(file: Path, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    copy = folder / file.name
    if not copy.exists():
        shutil.copy(file, copy)
    return copy
