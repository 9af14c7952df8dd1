"""Write docs/options.md, thinconsumer/config/typed.py, and the table of names in docs/security.md.

All are made from the declarations in thinconsumer.config.

``python docs/generate_options.py``. A test compares the committed files with what this makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path

from thinconsumer.config import OPTIONS, UNSUPPORTED, ClientOptions, Option, dotted, kinds, security_kinds
from thinconsumer.config.jaas import MODULES
from thinconsumer.config.options import default_of, meaning_of
from thinconsumer.config.other_clients import EXPLAINED
from thinconsumer.config.proxy import ProxyUrl
from thinconsumer.config.security import SecurityOptions
from thinconsumer.config.unsupported import ALIASES, FACTORS, UNSUPPORTED_PREFIXES
from thinconsumer.member import GroupMemberOptions
from thinconsumer.produce.settings import ProducerSettings

PAGE = Path(__file__).with_name("options.md")
SECURITY_PAGE = Path(__file__).with_name("security.md")
MODULE = PAGE.parents[1] / "thinconsumer" / "config" / "typed.py"

#: Type annotations of the values that an option of each kind accepts.
ANNOTATIONS: dict[type, str] = {
    kinds.Boolean: "bool",
    kinds.Integer: "int",
    kinds.MillisecondsOrNever: "float",
    kinds.Text: "str",
    kinds.Choice: "str",
    kinds.Servers: "str | list[str] | tuple[str, ...]",
    kinds.OffsetReset: "str | OffsetResetPolicy",
    kinds.BadRecordPolicy: "str | DeadLetter | Callable[..., Any]",
    kinds.Function: "Callable[..., Any]",
    kinds.Assignors: "list[Any] | tuple[Any, ...]",
    kinds.Plugins: "list[Any] | tuple[Any, ...]",
    security_kinds.SecretText: "str",
    security_kinds.JaasText: "str",
    security_kinds.PemText: "str",
    security_kinds.ExistingFile: "str | Path",
    security_kinds.HttpUrl: "str",
    ProxyUrl: "str",
    security_kinds.GrantType: "str",
    security_kinds.ImdsConfig: "str",
    security_kinds.SslContext: "Any",
    security_kinds.TlsProtocols: "str | list[str] | tuple[str, ...]",
    security_kinds.CipherSuites: "str | list[str] | tuple[str, ...]",
    security_kinds.HostNameCheck: "str",
    security_kinds.Fraction: "float",
    security_kinds.TokenProvider: "Any",
    security_kinds.KerberosName: "Any",
    security_kinds.Extensions: "Mapping[str, str]",
    kinds.SocketOptions: "list[tuple[int, int, int | bytes]] | tuple[tuple[int, int, int | bytes], ...]",
}
#: Parameters of their own, since the types of keys and values follow from them.
DESERIALIZERS = ("key_deserializer", "value_deserializer")

#: The options whose names are not of Kafka's own documentation, by the project that documents them.
ORIGINS = {
    "kafka-python": (
        "bootstrap_timeout_ms", "max_in_flight_requests_per_connection", "receive_message_max_bytes", "socket_options",
        "selector", "consumer_timeout_ms", "enable_incremental_fetch_sessions", "default_offset_commit_callback",
        "ssl_context", "ssl_check_hostname", "ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_password",
        "ssl_crlfile", "ssl_ciphers", "sasl_plain_username", "sasl_plain_password", "sasl_oauth_token_provider",
        "sasl_kerberos_domain_name", "sasl_kerberos_name", "proxy_url",
    ),
    "librdkafka": (
        "sasl_oauthbearer_grant_type", "sasl_oauthbearer_assertion_private_key_pem",
        "sasl_oauthbearer_metadata_authentication_type", "sasl_oauthbearer_config", "sasl_oauthbearer_extensions",
        "sasl_kerberos_principal", "sasl_kerberos_keytab",
    ),
    "thinconsumer": (
        "resolver", "on_bad_record", "trace", "trace_bytes_max",
        "batches_fetch_bytes", "max_buffered_bytes", "new_partition_offset_reset",
        "ordered_delivery",
        "ordered_delivery_grace_ms", "allow_foreign_commits", "sasl_aws_msk_iam_region", "sasl_aws_msk_iam_profile",
        "sasl_aws_msk_iam_role_arn", "sasl_aws_msk_iam_role_session_name", "sasl_aws_msk_iam_role_external_id",
        "sasl_aws_msk_iam_sts_region",
    ),
}  # fmt: skip

#: The security options that kafka-python has under the same name.
IN_KAFKA_PYTHON = frozenset((
    "security_protocol", "ssl_context", "ssl_check_hostname", "ssl_cafile", "ssl_certfile", "ssl_keyfile",
    "ssl_password", "ssl_crlfile", "ssl_ciphers", "sasl_mechanism", "sasl_plain_username", "sasl_plain_password",
    "sasl_oauth_token_provider", "sasl_kerberos_service_name", "sasl_kerberos_domain_name", "sasl_kerberos_name",
))  # fmt: skip
#: kafka-python's name for the same setting, where it differs.
OF_KAFKA_PYTHON = {
    "ssl_endpoint_identification_algorithm": "ssl_check_hostname",
    "ssl_key_password": "ssl_password",
    "ssl_cipher_suites": "ssl_ciphers",
    "ssl_truststore_location": "ssl_cafile",
    "ssl_keystore_location": "ssl_certfile",
}
#: Java's name for the same setting, for options that are not named after Java's.
OF_JAVA = {
    "ssl_check_hostname": "ssl.endpoint.identification.algorithm",
    "ssl_cafile": "ssl.truststore.location",
    "ssl_certfile": "ssl.keystore.location",
    "ssl_keyfile": "ssl.keystore.location",
    "ssl_password": "ssl.key.password",
    "ssl_ciphers": "ssl.cipher.suites",
    "sasl_oauth_token_provider": "sasl.login.callback.handler.class",
    "sasl_oauthbearer_grant_type": "sasl.oauthbearer.jwt.retriever.class",
}
#: The security options that librdkafka has under the dotted name.
IN_LIBRDKAFKA = frozenset((
    "security_protocol", "ssl_endpoint_identification_algorithm", "ssl_cipher_suites", "ssl_keystore_location",
    "ssl_keystore_password", "ssl_key_password", "sasl_mechanism", "sasl_oauthbearer_token_endpoint_url",
    "sasl_oauthbearer_client_credentials_client_id", "sasl_oauthbearer_client_credentials_client_secret",
    "sasl_oauthbearer_scope", "sasl_oauthbearer_sub_claim_name", "sasl_oauthbearer_extensions",
    "sasl_oauthbearer_grant_type", "sasl_oauthbearer_assertion_file", "sasl_oauthbearer_assertion_private_key_file",
    "sasl_oauthbearer_assertion_private_key_pem", "sasl_oauthbearer_assertion_private_key_passphrase",
    "sasl_oauthbearer_assertion_algorithm", "sasl_oauthbearer_assertion_claim_aud",
    "sasl_oauthbearer_assertion_claim_iss", "sasl_oauthbearer_assertion_claim_sub",
    "sasl_oauthbearer_assertion_claim_exp_seconds", "sasl_oauthbearer_assertion_claim_nbf_seconds",
    "sasl_oauthbearer_assertion_claim_jti_include", "sasl_oauthbearer_metadata_authentication_type",
    "sasl_oauthbearer_config",
    "sasl_kerberos_service_name", "sasl_kerberos_principal", "sasl_kerberos_keytab",
))  # fmt: skip
#: librdkafka's name for the same setting, where it is no alias and differs.
OF_LIBRDKAFKA = {
    "ssl_check_hostname": "ssl.endpoint.identification.algorithm",
    "ssl_password": "ssl.key.password",
    "ssl_ciphers": "ssl.cipher.suites",
    "ssl_truststore_location": "ssl.ca.location",
}

NAMES_BEGIN = "<!-- Made by docs/generate_options.py. Do not edit. -->\n"
NAMES_END = "<!-- End of the generated table. -->\n"
NAMES_HEAD = """
| Option | kafka-python | Java | librdkafka |
|---|---|---|---|
"""

MODULE_HEAD = '''\
"""The options as static type checkers see them (PEP 692).

Made by docs/generate_options.py from the declarations in thinconsumer/config. Do not edit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from .values import DeadLetter, OffsetResetPolicy

if TYPE_CHECKING:
    from pathlib import Path
'''

HEAD = """\
# Options

<!-- Made by docs/generate_options.py from the declarations in thinconsumer/config. Do not edit. -->

Pass options by these names to `Consumer(...)`, or by the dotted names of Kafka's documentation to
`Consumer.from_config({"bootstrap.servers": ...})`, where a value may also be text: `"500"`, `"true"`, `"a:9092,b"`.
Durations are in milliseconds, unless the name ends in `seconds`. All options are checked when the consumer is built,
before anything is connected; a `KafkaConfigurationError` names all invalid options at once. An option without the
effect that its name suggests causes a `ConfigurationWarning`. Passwords, keys and other secrets are never shown: not in
errors, warnings or `repr`.

[Security](security.md) explains the options of TLS and logins. [Migrating](migrating.md) lists the defaults that differ
from kafka-python's.
"""

TABLE = """
| Option | Type | Default | Meaning |
|---|---|---|---|
"""

NOT_KAFKAS = """
## Names that are not Kafka's own

The dotted name of an option has dots for underscores. These options are not in Kafka's documentation:

"""

ALIASES_HEAD = """
## librdkafka's names

`from_config` also takes these names of librdkafka and confluent-kafka, and two of Java's client. It understands their
words, too: `smallest`, `beginning`, `largest`, `end` and `error` of `auto.offset.reset`, 0 for no limit of
`connections.max.idle.ms` and for the system's own buffer sizes, and Java's class names of the four built-in assignors,
and of [deserializers](deserializers.md).

| Name | Option |
|---|---|
"""

UNSUPPORTED_HEAD = """
## Options of other clients

Some options of other clients are recognized but not supported. An option is refused if ignoring it would change which
records are read, how securely, or whether your own code runs; otherwise it is accepted with a warning. A value that
asks for the behaviour of this client causes no warning. Other names that begin with
{prefixes} are refused, and so are options of producers, brokers and
share groups. With these, every option of the consumers of librdkafka 2.16, Java 4.4 and kafka-python 3.0 is in one of
the tables:

| Option | What happens | Why |
|---|---|---|
"""


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for section, options in groupby(OPTIONS.items(), key=lambda item: item[1].section):
        parts.append(f"\n## {section}\n{TABLE}")
        parts.extend(_row(name, option) for name, option in options)
    parts.append(NOT_KAFKAS)
    for origin, names in ORIGINS.items():
        parts.append(f"- from {origin}: {', '.join(f'`{dotted(name)}`' for name in OPTIONS if name in names)}\n")
    parts.append(ALIASES_HEAD)
    for theirs, ours in ALIASES.items():
        factor = f", times {FACTORS[theirs]}" if theirs in FACTORS else ""
        parts.append(f"| `{theirs}` | `{ours}`{factor} |\n")
    parts.append(UNSUPPORTED_HEAD.format(prefixes=" or ".join(f"`{prefix}`" for prefix in UNSUPPORTED_PREFIXES)))
    for name, row in sorted({**UNSUPPORTED, **EXPLAINED}.items()):
        parts.append(f"| `{name}` | {'refused' if row.refused else 'accepted with a warning'} | {row.reason} |\n")
    return "".join(parts)


def _row(name: str, option: Option) -> str:
    cells = (f"`{name}`", option.kind.description, f"`{default_of(name, option)}`", meaning_of(option))
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"


def names_elsewhere() -> dict[str, tuple[list[str], list[str], list[str]]]:
    """Return the names of each security option in kafka-python, Java's client and librdkafka."""
    in_jaas: dict[str, list[str]] = {}
    for module in MODULES.values():
        for theirs, ours in module.options.items():
            if f"JAAS: {theirs}" not in in_jaas.setdefault(ours, []):
                in_jaas[ours].append(f"JAAS: {theirs}")
    in_jaas["sasl_oauthbearer_extensions"] = ["JAAS: extension_NAME"]
    aliases: dict[str, list[str]] = {}
    for theirs, ours in ALIASES.items():
        if theirs != OF_JAVA.get(ours):
            aliases.setdefault(ours, []).append(theirs)
    found = {}
    for name in SecurityOptions.options():
        python = [name] if name in IN_KAFKA_PYTHON else [OF_KAFKA_PYTHON[name]] if name in OF_KAFKA_PYTHON else []
        is_javas = not any(name in names for names in ORIGINS.values())
        java = [dotted(name)] if is_javas else [OF_JAVA[name]] if name in OF_JAVA else []
        librdkafka = [dotted(name)] if name in IN_LIBRDKAFKA else [OF_LIBRDKAFKA[name]] if name in OF_LIBRDKAFKA else []
        found[name] = python, java + in_jaas.get(name, []), librdkafka + aliases.get(name, [])
    return found


def security_page(present: str) -> str:
    """Return the text of docs/security.md with the table of names made anew."""
    before, begin, rest = present.partition(NAMES_BEGIN)
    _, end, after = rest.partition(NAMES_END)
    if not begin or not end:
        raise ValueError(f"{SECURITY_PAGE} has lost the comments around its generated table")
    rows = []
    for name, columns in names_elsewhere().items():
        cells = (", ".join(f"`{one}`" for one in names) for names in columns)
        rows.append(f"| `{name}` | {' | '.join(cells)} |\n")
    return f"{before}{begin}{NAMES_HEAD}{''.join(rows)}\n{end}{after}"


def module() -> str:
    """Return the module of typed dictionaries."""
    client = ClientOptions.options()
    keywords = {
        "ConsumerOptions": ("Consumer", OPTIONS),
        "GroupMemberKeywords": ("GroupMember", GroupMemberOptions.options()),
        "ProducerKeywords": ("the internal producer", ProducerSettings.options()),
    }
    parts = [MODULE_HEAD, _typed_dict("ClientKeywords", "TypedDict, total=False", "every client", client, ())]
    for name, (who, options) in keywords.items():
        parts.append(_typed_dict(name, "ClientKeywords, total=False", who, options, client))
    return "".join(parts)


def _typed_dict(name: str, bases: str, who: str, options: Mapping[str, Option], inherited: Iterable[str]) -> str:
    lines = [f'\n\nclass {name}({bases}):\n    """The options of {who}."""\n']
    for option_name, option in options.items():
        if option_name in inherited or option_name in DESERIALIZERS:
            continue
        none = " | None" if option.default is None else ""
        lines.append(f"    {option_name}: {ANNOTATIONS[type(option.kind)]}{none}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    MODULE.write_text(module(), encoding="utf-8")
    SECURITY_PAGE.write_text(security_page(SECURITY_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"{PAGE}: {len(OPTIONS)} options")
