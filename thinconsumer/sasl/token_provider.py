"""The token providers of users: what they look like, and how one is asked for a token.

kafka-python's ``AbstractTokenProvider`` is an object with ``token()`` and optionally ``extensions()``, and
confluent-kafka's ``oauth_cb`` is a function of one argument. A function without arguments is accepted, too.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from ..errors import KafkaConfigurationError
from .oauthbearer import check_extensions
from .tokens import Token, as_token, checked_extensions, refuse_coroutine

OPTION = "sasl_oauth_token_provider"


class ProviderAnswer(NamedTuple):
    """The result of a provider with a method ``extensions()``."""

    token: object
    extensions: object

    def __repr__(self) -> str:
        return "<ProviderAnswer>"


def provider_call(provider: object) -> Callable[[], object]:
    """Return a function without arguments that asks the provider. It runs user code, and may block.

    Raises:
        KafkaConfigurationError: the provider has no method ``token``, and cannot be called with no or one argument.
    """
    if callable(getattr(provider, "token", None)):
        return partial(_ask, provider)
    if not callable(provider):
        raise KafkaConfigurationError(f"{OPTION} is neither callable nor an object with a method token()")
    # confluent-kafka passes the option sasl.oauthbearer.config, which is empty by default.
    return partial(provider, "") if _needs_argument(provider) else provider


def token_of(answer: object, extensions: Mapping[str, str] | None, wall: float, sub_claim: str) -> Token:
    """Return the token that a provider or token endpoint has returned, with the ``extensions`` of the client's options.

    An extension of the provider replaces one of the options with the same name.

    Raises:
        IllegalArgumentError: the answer is no token that can be sent.
    """
    own: Mapping[str, str] = {}
    if isinstance(answer, ProviderAnswer):
        own, answer = checked_extensions(answer.extensions), answer.token
    token = as_token(answer, wall, sub_claim)
    merged = {**(extensions or {}), **own, **token.extensions}
    check_extensions(merged)
    return Token(token.value, token.expires_at, token.principal, checked_extensions(merged))


def _ask(provider: object) -> ProviderAnswer:
    token = provider.token()  # type: ignore[attr-defined]
    refuse_coroutine(token)  # aiokafka's AbstractTokenProvider has this method as a coroutine
    extensions = getattr(provider, "extensions", None)
    return ProviderAnswer(token, extensions() if callable(extensions) else None)


def _needs_argument(function: Callable[..., object]) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False  # a function written in C may have no signature
    for arguments in ((), ("",)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return bool(arguments)
    raise KafkaConfigurationError(f"{OPTION} must be callable with no or one argument, but takes {signature}")
