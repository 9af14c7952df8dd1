"""Token providers of kafka-python and confluent-kafka, and plain functions, are asked as they expect it."""

import functools

import pytest
from kafka.net.sasl.oauth import AbstractTokenProvider

from thinconsumer.errors import IllegalArgumentError, KafkaConfigurationError
from thinconsumer.sasl.tokens import Token, provider_call, token_of

NOW = 1_700_000_000.0
SECRET = "c4n4ry"


class KafkaPython(AbstractTokenProvider):
    def token(self):
        return "abc"

    def extensions(self):
        return {"one": "1", "two": "2"}


class TokenOnly:
    def token(self):
        return ("abc", NOW + 60)


class Called:
    def __call__(self, config):
        return "abc" + config


class AioKafka:
    async def token(self):
        return "abc"

    def extensions(self):
        raise AssertionError


async def coroutine_function():
    return "abc"


def asked(provider, extensions=None):
    return token_of(provider_call(provider)(), extensions, NOW, "sub")


@pytest.mark.parametrize(
    "provider",
    [
        lambda: "abc",
        lambda config: "abc" + config,  # confluent-kafka's oauth_cb; its sasl.oauthbearer.config is empty
        lambda config="": "abc",
        lambda *arguments: "abc",
        functools.partial(lambda value, config: value + config, "abc"),
        Called(),
    ],
)
def test_callables(provider):
    assert asked(provider) == Token("abc")


def test_a_callable_without_a_signature():
    assert asked(functools.partial(next, iter(["abc"]))) == Token("abc")
    assert asked(iter(["abc"]).__next__) == Token("abc")


def test_objects_with_a_method():
    assert asked(KafkaPython()) == Token("abc", extensions={"one": "1", "two": "2"})
    assert asked(TokenOnly()) == Token("abc", NOW + 60)


def test_extensions_of_the_provider_replace_those_of_the_options():
    merged = asked(KafkaPython(), {"two": "x", "three": "3"}).extensions
    assert merged == {"one": "1", "two": "2", "three": "3"}
    assert asked(lambda: ("abc", None, None, {"a": "b"}), {"a": "c"}).extensions == {"a": "b"}


@pytest.mark.parametrize("provider", [AioKafka(), coroutine_function])
def test_coroutines_are_refused(provider):
    with pytest.raises(IllegalArgumentError, match="awaitable"):
        asked(provider)


def test_a_callable_that_needs_two_arguments_is_refused():
    with pytest.raises(KafkaConfigurationError, match="sasl_oauth_token_provider"):
        provider_call(lambda a, b: a)


@pytest.mark.parametrize("extensions", [{"auth": SECRET}, {"a b": SECRET}, {"a": f"{SECRET}\x01"}, [SECRET], {"a": 5}])
def test_extensions_that_cannot_be_sent(extensions):
    with pytest.raises(IllegalArgumentError) as caught:
        asked(lambda: ("abc", None, None, extensions))
    assert SECRET not in str(caught.value)


def test_an_answer_hides_its_token():
    assert "abc" not in repr(provider_call(KafkaPython())())
