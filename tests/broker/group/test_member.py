"""One member: its protocols, its vote, its subscription, and when it needs no heartbeats."""

from typing import Any

import pytest

from thinconsumer.errors import KafkaProtocolError
from thinconsumer.wire.join_group import JoinGroupRequestProtocol
from thinconsumer_testing.broker.group.member import ClassicGroupMember, protocols_of


def member(**options: Any) -> ClassicGroupMember:
    protocols = options.pop("protocols", (("range", b"r"), ("sticky", b"s")))
    return ClassicGroupMember("m", None, "c", "/h", 1, 1, "consumer", protocols, **options)


def test_first_of_two_protocols_with_the_same_name_counts() -> None:
    listed = [JoinGroupRequestProtocol(name="a", metadata=b"1"), JoinGroupRequestProtocol(name="a", metadata=b"2")]
    assert protocols_of(listed) == (("a", b"1"),)


TOPICS = b"\0\0\0\2\0\6orders\0\6m\xc3\xb6bel"
NO_USER_DATA = b"\xff\xff\xff\xff"


@pytest.mark.parametrize("version", [0, 1, 2, 3, 9])
def test_topics_of_every_subscription_version_are_read(version: int) -> None:
    metadata = version.to_bytes(2, "big") + TOPICS + NO_USER_DATA + b"fields of later versions"
    assert member(protocols=(("range", metadata),)).subscribed_topics("range") == ["orders", "m\u00f6bel"]


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff" + TOPICS + NO_USER_DATA, b"\0\0" + TOPICS[:-1]])
def test_metadata_that_is_no_subscription_raises(data: bytes) -> None:
    with pytest.raises(KafkaProtocolError):
        member(protocols=(("range", data),)).subscribed_topics("range")
