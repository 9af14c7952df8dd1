"""The rules between options of TLS and SASL. Errors and warnings contain no value that may be a secret."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from .declare import is_changed
from .rules import Spell, Values
from .security import SASL_MECHANISMS, SecurityOptions
from .security_kinds import ASSERTION, ASSERTION_SOURCES, CLIENT_CREDENTIALS, JWT_BEARER, imds_query
from .values import server_schemes

DEFAULTS: dict[str, Any] = {name: option.default for name, option in SecurityOptions.options().items()}
_TLS = tuple(name for name in DEFAULTS if name.startswith("ssl_"))
_SASL = tuple(name for name in DEFAULTS if name.startswith("sasl_"))
_ALGORITHM = "ssl_endpoint_identification_algorithm"
_ENDPOINT = "sasl_oauthbearer_token_endpoint_url"
_CLIENT_ID = "sasl_oauthbearer_client_credentials_client_id"
_CLIENT_SECRET = "sasl_oauthbearer_client_credentials_client_secret"
_PROVIDER = "sasl_oauth_token_provider"
_GRANT = "sasl_oauthbearer_grant_type"
_METADATA = "sasl_oauthbearer_metadata_authentication_type"
_CONFIG = "sasl_oauthbearer_config"
_ASSERTION_FILE, _KEY_FILE, _ = ASSERTION_SOURCES

#: For each setting of TLS, the ways to give it, of which one at most may be used. A way is a tuple of options.
_ALTERNATIVES: dict[str, tuple[tuple[str, ...], ...]] = {
    "certificates to trust": (("ssl_cafile",), ("ssl_truststore_location",), ("ssl_truststore_certificates",)),
    "certificate and private key of the client": (
        ("ssl_certfile", "ssl_keyfile"),
        ("ssl_keystore_location",),
        ("ssl_keystore_certificate_chain", "ssl_keystore_key"),
    ),
    "cipher suites": (("ssl_ciphers",), ("ssl_cipher_suites",)),
}

#: Pairs of an option and one that it needs.
_NEEDS = (
    ("ssl_keyfile", "ssl_certfile"),
    ("ssl_keystore_key", "ssl_keystore_certificate_chain"),
    ("ssl_keystore_certificate_chain", "ssl_keystore_key"),
    ("ssl_keystore_password", "ssl_keystore_location"),
    ("ssl_truststore_password", "ssl_truststore_location"),
)
#: The beginnings of the names of options that each mechanism uses.
_PREFIXES = {
    "PLAIN": ("sasl_plain_",),
    "SCRAM-SHA-256": ("sasl_plain_",),
    "SCRAM-SHA-512": ("sasl_plain_",),
    "OAUTHBEARER": ("sasl_oauth", "sasl_login_"),
    "GSSAPI": ("sasl_kerberos_",),
    "AWS_MSK_IAM": ("sasl_aws_msk_iam_", "sasl_login_"),
}


def derive_host_name_check(values: Values, given: Collection[str]) -> dict[str, Any]:
    """Return the values. If only one option for the check of host names is given, the other is set to agree."""
    derived = dict(values)
    if _ALGORITHM in given and "ssl_check_hostname" not in given:
        derived["ssl_check_hostname"] = derived[_ALGORITHM] != ""
    elif "ssl_check_hostname" in given and _ALGORITHM not in given:
        derived[_ALGORITHM] = "https" if derived["ssl_check_hostname"] else ""
    return derived


def broken_security_rules(values: Values, given: Collection[str], servers: object, spell: Spell) -> list[str]:
    """Return a sentence for each rule that the values break; ``servers`` are those passed as bootstrap servers."""
    chosen = _chosen(values, given)
    return [
        *_scheme_problems(values, servers, spell),
        *_tls_problems(values, chosen, spell),
        *_login_problems(values, chosen, spell),
    ]


def security_warnings(values: Values, given: Collection[str], spell: Spell) -> list[str]:
    """Return sentences about options that are a risk or have no effect. The values must obey the rules."""
    return [*_risks(values, spell), *_without_effect(values, _chosen(values, given), spell)]


def _chosen(values: Values, given: Collection[str]) -> list[str]:
    """Return the options of TLS and SASL that the user gave and that differ from their default.

    Programs that write down defaults, as in kafka-python's documentation, do not choose anything by that.
    """
    return [name for name in DEFAULTS if name in given and is_changed(values[name], DEFAULTS[name])]


def _scheme_problems(values: Values, servers: object, spell: Spell) -> Iterator[str]:
    protocol = values["security_protocol"]
    wrong = sorted({scheme for scheme in server_schemes(servers) if scheme != protocol})
    if wrong:
        yield (
            f"{spell('bootstrap_servers')} has a server with {wrong[0]}://, but {spell('security_protocol')} is "
            f"{protocol!r}: make them agree, or write host:port only"
        )


def _tls_problems(values: Values, chosen: Collection[str], spell: Spell) -> Iterator[str]:
    others = [name for name in chosen if name in _TLS and name != "ssl_context"]
    if values["ssl_context"] is not None:
        if others:
            yield (
                f"{spell('ssl_context')} is used instead of all other TLS options: leave it out, or set up the context "
                f"accordingly and leave out {', '.join(map(spell, others))}"
            )
        return
    if values["ssl_check_hostname"] != (values[_ALGORITHM] != ""):
        yield f"{spell('ssl_check_hostname')} and {spell(_ALGORITHM)} contradict each other: give one of them"
    for what, ways in _ALTERNATIVES.items():
        yield from _alternatives(chosen, ways, what, spell)
    passwords = {values[name] for name in ("ssl_password", "ssl_key_password") if values[name] is not None}
    if len(passwords) > 1:
        yield f"{spell('ssl_password')} and {spell('ssl_key_password')} are not the same, but for the same key"
    for name, needed in _NEEDS:
        if name in chosen and needed not in chosen:
            yield f"{spell(name)} needs {spell(needed)}"
    for store, text in (("ssl_truststore", "certificates"), ("ssl_keystore", "key")):
        kind = f"{store}_type"
        if values[kind] == "PEM" and f"{store}_password" in chosen:
            yield f"{spell(f'{store}_password')} is not for PEM, where a key has {spell('ssl_key_password')}"
        if values[kind] == "PKCS12" and f"{store}_{text}" in chosen:
            yield f"{spell(f'{store}_{text}')} is PEM text, but {spell(kind)} is 'PKCS12'"
    if values["ssl_protocol"] == "TLSv1.2" and "TLSv1.2" not in values["ssl_enabled_protocols"]:
        yield f"{spell('ssl_protocol')} is 'TLSv1.2', which {spell('ssl_enabled_protocols')} does not contain"


def _alternatives(chosen: Collection[str], ways: Iterable[tuple[str, ...]], what: str, spell: Spell) -> Iterator[str]:
    used = [names for way in ways if (names := [name for name in way if name in chosen])]
    if len(used) > 1:
        yield f"more than one option for the {what}: give only one of {', '.join(spell(names[0]) for names in used)}"


def _login_problems(values: Values, chosen: Collection[str], spell: Spell) -> Iterator[str]:
    protocol, mechanism = values["security_protocol"], values["sasl_mechanism"]
    if not protocol.startswith("SASL_"):
        return
    if mechanism is None:
        words = ", ".join(SASL_MECHANISMS)
        yield f"{spell('sasl_mechanism')} is missing: {spell('security_protocol')}={protocol!r} needs one of {words}"
    elif "sasl_plain_" in _PREFIXES[mechanism]:
        missing = [spell(name) for name in ("sasl_plain_username", "sasl_plain_password") if not values[name]]
        if missing:
            are = "are" if len(missing) > 1 else "is"
            yield f"{' and '.join(missing)} {are} missing, which {mechanism} needs"
    elif mechanism == "OAUTHBEARER":
        yield from _token_problems(values, chosen, spell)
    elif mechanism == "AWS_MSK_IAM":
        if protocol != "SASL_SSL":
            yield f"AWS_MSK_IAM needs {spell('security_protocol')}='SASL_SSL': it must not be used without TLS"
        for name in chosen:
            if name.startswith("sasl_aws_msk_iam_role_") and values["sasl_aws_msk_iam_role_arn"] is None:
                yield f"{spell(name)} needs {spell('sasl_aws_msk_iam_role_arn')}"


def _token_problems(values: Values, chosen: Collection[str], spell: Spell) -> Iterator[str]:
    yield from _alternatives(chosen, ((_PROVIDER,), (_ENDPOINT, _METADATA)), "source of tokens", spell)
    if values[_CONFIG] and values[_METADATA] == "none":
        yield f"{spell(_CONFIG)} needs {spell(_METADATA)}='azure_imds'"
    if values[_PROVIDER] is not None:
        return
    if values[_METADATA] != "none":
        if values[_ENDPOINT] is None and not imds_query(values[_CONFIG] or ""):
            yield f"azure_imds needs {spell(_CONFIG)}='query=api-version=2018-02-01&resource=...'"
        return
    assertion = [name for name in chosen if name.startswith(ASSERTION)]
    if assertion or values[_GRANT] == JWT_BEARER:
        yield from _assertion_problems(values, assertion, spell)
        return
    missing = [spell(name) for name in (_ENDPOINT, _CLIENT_ID, _CLIENT_SECRET) if values[name] is None]
    if len(missing) == 3:
        yield (
            f"OAUTHBEARER needs {spell(_PROVIDER)}, or {spell(_ENDPOINT)} with {spell(_CLIENT_ID)} and "
            f"{spell(_CLIENT_SECRET)}"
        )
    elif missing:
        yield f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} missing, to request tokens"


def _assertion_problems(values: Values, chosen: Sequence[str], spell: Spell) -> Iterator[str]:
    """Yield the problems of token requests with an assertion; ``chosen`` has only options of assertions."""
    authenticates_client = values[_GRANT] == CLIENT_CREDENTIALS
    if values[_ENDPOINT] is None:
        yield f"{spell(_ENDPOINT)} is missing, to request tokens"
    if authenticates_client and values[_CLIENT_SECRET] is not None:
        yield f"the client has both an assertion and a secret: leave out {spell(_CLIENT_SECRET)}, or {spell(chosen[0])}"
    yield from _alternatives(chosen, [(name,) for name in ASSERTION_SOURCES], "assertion", spell)
    if not any(values[name] for name in ASSERTION_SOURCES):
        user = spell(chosen[0]) if authenticates_client else f"{spell(_GRANT)}={JWT_BEARER!r}"
        yield f"{user} needs {spell(_KEY_FILE)}, or another of {', '.join(map(spell, ASSERTION_SOURCES))}"
    elif values[_ASSERTION_FILE] is None and values[f"{ASSERTION}template_file"] is None:
        has_client_id = authenticates_client and values[_CLIENT_ID] is not None
        missing = [f"{ASSERTION}claim_{claim}" for claim in ("aud", *(() if has_client_id else ("iss",)))]
        if absent := [spell(name) for name in missing if values[name] is None]:
            yield f"{' and '.join(absent)} {'are' if len(absent) > 1 else 'is'} missing, which assertions need"


def _risks(values: Values, spell: Spell) -> Iterator[str]:
    protocol, mechanism = values["security_protocol"], values["sasl_mechanism"]
    if _uses_tls(values):
        yield from _tls_risks(values, spell)
    remote = None
    if protocol == "SASL_PLAINTEXT" and mechanism in ("PLAIN", "OAUTHBEARER"):
        remote = next((server.host for server in values["bootstrap_servers"] if not _is_loopback(server.host)), None)
    if remote is not None:
        sent = "the password" if mechanism == "PLAIN" else "the token"
        yield (
            f"{mechanism} sends {sent} in the clear to {remote}, since {spell('security_protocol')} is "
            "'SASL_PLAINTEXT': use 'SASL_SSL'" + (", or a SCRAM mechanism" if mechanism == "PLAIN" else "")
        )
    url = _used_endpoint(values)
    if url is not None and url.lower().startswith("http:"):
        from urllib.parse import urlsplit  # on demand: no other option needs it

        is_azure = values[_METADATA] != "none"  # Azure's own address is a link-local one
        if not _is_loopback(host := urlsplit(url).hostname or "") and not (is_azure and host.startswith("169.254.")):
            sends_assertion = any(values[name] for name in ASSERTION_SOURCES)
            sent = "sends the assertion" if sends_assertion else "sends the client secret"
            yield f"{spell(_ENDPOINT)} {'gets the token' if is_azure else sent} in the clear: use https"


def _tls_risks(values: Values, spell: Spell) -> Iterator[str]:
    poses = "can pose as the broker, and read and change everything, passwords too"
    context = values["ssl_context"]
    if context is not None and not context.verify_mode:
        yield (
            f"{spell('ssl_context')} does not verify certificates (ssl.CERT_NONE): whoever is on the way {poses}. Load "
            "the certificate to trust with its load_verify_locations, and set verify_mode to ssl.CERT_REQUIRED"
        )
    elif not (values["ssl_check_hostname"] if context is None else context.check_hostname):
        name = spell("ssl_context") if context is not None else spell("ssl_check_hostname")
        if context is None and "." in name:
            name = spell(_ALGORITHM)
        yield (
            f"{name} switches off the check of host names: whoever has a certificate of the same authorities {poses}. "
            "Use a certificate with the broker's name"
        )


def _without_effect(values: Values, chosen: Collection[str], spell: Spell) -> Iterator[str]:
    protocol, mechanism = values["security_protocol"], values["sasl_mechanism"]
    used = ("sasl_mechanism", "sasl_jaas_config", *_PREFIXES[mechanism]) if protocol.startswith("SASL_") else ()
    idle: tuple[tuple[str, Iterable[str]], ...] = (
        ("security_protocol", () if _uses_tls(values) else _TLS),
        ("security_protocol", () if used else _SASL),
        ("sasl_mechanism", [name for name in _SASL if used and not name.startswith(used)]),
        *(_idle_for_tokens(values) if used and mechanism == "OAUTHBEARER" else ()),
    )
    for cause, names in idle:
        if without := [spell(name) for name in names if name in chosen and name != cause]:
            yield f"with {spell(cause)}={values[cause]!r}, these options have no effect: {', '.join(without)}"


def _idle_for_tokens(values: Values) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield options that decide how tokens are requested, each with the options that it leaves without effect."""
    client, assertion = (_CLIENT_ID, _CLIENT_SECRET), [name for name in values if name.startswith(ASSERTION)]
    if values[_METADATA] != "none":
        yield _METADATA, (_GRANT, *client, *assertion)
        return
    if values[_GRANT] == JWT_BEARER:
        yield _GRANT, client
    if values[_ASSERTION_FILE] is not None:
        yield _ASSERTION_FILE, assertion


def _uses_tls(values: Values) -> bool:
    """Return whether any connection uses TLS: to brokers, or to a token endpoint."""
    url = _used_endpoint(values)
    return bool(values["security_protocol"].endswith("SSL") or (url is not None and url.lower().startswith("https:")))


def _used_endpoint(values: Values) -> str | None:
    uses = values["security_protocol"].startswith("SASL_") and values["sasl_mechanism"] == "OAUTHBEARER"
    url: str | None = values[_ENDPOINT]
    return url if uses and values[_PROVIDER] is None else None


def _is_loopback(host: str) -> bool:
    import ipaddress  # on demand: needed only if a password, token or client secret is sent without TLS

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"
