"""The ``kafka.*`` options as Spark passes them on: they are text, some are secrets, and some name files that the driver
and every executor read from their own disks.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ..config import OPTIONS as CONSUMER_OPTIONS
from ..config import Secret, SecurityOptions, dotted
from ..config.security_kinds import ExistingFile
from ..config.unsupported import ALIASES
from ..errors import KafkaConfigurationError

KAFKA = "kafka."

#: Every name of each option of TLS and SASL with a dot, those of librdkafka included; values are Python names.
SECURITY_NAMES: dict[str, str] = {**{dotted(name): name for name in SecurityOptions.options()}, **ALIASES}

_FILES = frozenset(
    spelt
    for spelt, name in SECURITY_NAMES.items()
    if isinstance(SecurityOptions.options()[name].kind, ExistingFile)
)  # fmt: skip
_NOT_SECRET = frozenset(
    spelt
    for spelt in (*map(dotted, CONSUMER_OPTIONS), *ALIASES)
    if not (spelt in SECURITY_NAMES and SecurityOptions.options()[SECURITY_NAMES[spelt]].kind.is_secret)
)

_NO_OBJECTS = "Spark passes options as text, not as objects"
_CONTEXT = f"{_NO_OBJECTS}: set ssl.truststore.location, ssl.keystore.location and other ssl.* options"
_PROVIDER = (
    f"{_NO_OBJECTS}: set sasl.oauthbearer.token.endpoint.url, with sasl.oauthbearer.client.credentials.client.id and "
    "client.secret"
)
#: Options that take a Python object, and the advice to give.
OBJECTS = {"ssl.context": _CONTEXT, "sasl.oauth.token.provider": _PROVIDER, "oauth_cb": _PROVIDER}
#: Words in an error that advise to set an option of ``OBJECTS``, and the advice to add.
_ADVICE = {
    "ssl_context": _CONTEXT,
    "ssl.context": _CONTEXT,
    "sasl_oauth_token_provider": _PROVIDER,
    "sasl.oauth.token.provider": _PROVIDER,
}


def hidden(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return the options such that ``repr`` does not show secrets, nor values of unknown and misspelt names.

    Error trackers record local variables of tasks, and with them these options.
    """
    return {name: text if name in _NOT_SECRET else Secret(text) for name, text in kafka.items()}


def without_objects(problem: str) -> str:
    """Return the problem; if it advises to pass an object, add what to do in Spark instead."""
    advice = {text for word, text in _ADVICE.items() if word in problem}
    return "; ".join([problem, *sorted(advice)])


@contextmanager
def errors_name_host(kafka: Mapping[str, str]) -> Iterator[None]:
    """Name this host in configuration errors if the options name files: the same path is another file elsewhere."""
    try:
        yield
    except KafkaConfigurationError as error:
        if not names_file(kafka):
            raise
        raise KafkaConfigurationError(f"on host {platform.node()!r}: {error}") from None


def names_file(kafka: Mapping[str, str]) -> bool:
    """Return whether an option names a file."""
    return not _FILES.isdisjoint(kafka) or "keytab" in kafka.get("sasl.jaas.config", "").lower()
