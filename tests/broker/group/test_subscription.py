"""Parsing of topics in consumer metadata, which is untrusted."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.broker.group.subscription import subscribed_topics
from thinconsumer.errors import KafkaProtocolError


def encoded(topics: list[str], version: int = 0, rest: bytes = b"\xff\xff\xff\xff") -> bytes:
    parts = [version.to_bytes(2, "big"), len(topics).to_bytes(4, "big")]
    parts += [len(topic.encode()).to_bytes(2, "big") + topic.encode() for topic in topics]
    return b"".join(parts) + rest


@pytest.mark.parametrize("version", [0, 1, 2, 3, 9])
def test_topics_of_every_version_are_read(version: int) -> None:
    assert subscribed_topics(encoded(["orders", "möbel"], version, b"whatever follows")) == {"orders", "möbel"}


def test_no_topics() -> None:
    assert subscribed_topics(encoded([])) == frozenset()


@pytest.mark.parametrize("cut", range(len(encoded(["orders", "b"], rest=b""))))
def test_truncated_subscriptions_are_rejected(cut: int) -> None:
    with pytest.raises(KafkaProtocolError):
        subscribed_topics(encoded(["orders", "b"], rest=b"")[:cut])


@pytest.mark.parametrize(
    "data",
    [
        encoded(["a"], version=0xFFFF),
        b"\0\0\x7f\xff\xff\xff",
        b"\0\0\xff\xff\xff\xff",
        b"\0\0\0\0\0\1\xff\xff\0",
        b"\0\0\0\0\0\1\0\1\xff",
    ],
    ids=["negative version", "two billion topics", "negative count", "negative length", "not UTF-8"],
)
def test_invalid_lengths_are_rejected(data: bytes) -> None:
    with pytest.raises(KafkaProtocolError):
        subscribed_topics(data)


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=60))
def test_any_bytes_parse_or_raise_one_error_type(data: bytes) -> None:
    try:
        topics = subscribed_topics(data)
    except KafkaProtocolError:
        return
    assert sum(len(topic.encode()) for topic in topics) <= len(data)
