"""Messages with fields of every type, declared for these tests."""

from __future__ import annotations

import pytest

from thinconsumer.errors import KafkaProtocolError
from thinconsumer.wire import Message, Struct
from thinconsumer.wire.schema import (
    Records,
    array,
    binary,
    boolean,
    int8,
    int16,
    int64,
    record_bytes,
    string,
    struct,
    uuid,
)


class Inner(Struct):
    name: str | None = string("0+", nullable="1+")
    flag: bool = boolean("2+", tag=4)


class Everything(Message, key=9999, versions=(0, 2), flexible=2):
    flag: bool = boolean("0+")
    small: int = int8("0+")
    inner: Inner = struct(Inner, "0+")
    blobs: list[bytes] = array(binary, "0+")
    ids: list[bytes] = array(uuid, "0+")
    texts: list[str] = array(string, "1+", ignorable=True)
    data: bytes | None = binary("0+", nullable="0+", default=None)
    records: Records | None = record_bytes("0+", nullable="0+")
    tagged_inner: Inner = struct(Inner, "2+", tag=1)
    tagged_list: list[Inner] = array(Inner, "2+", tag=0)
    tagged_text: str | None = string("2+", nullable="2+", default=None, tag=2)
    tagged_number: int = int64("2+", default=-1, tag=3)
    tagged_codes: list[int] | None = array(int16, "2+", nullable="2+", default=None, tag=5)


FULL = Everything(
    flag=True,
    small=-128,
    inner=Inner(name="a"),
    blobs=[b"", b"x" * 200],
    ids=[b"i" * 16] * 20,
    data=b"d",
    records=b"r" * 20000,
)
TAGGED = Everything(
    inner=Inner(flag=True),
    tagged_inner=Inner(name=None, flag=True, unknown_tags={9: b"u"}),
    tagged_list=[Inner(name="c"), Inner()],
    tagged_text="t",
    tagged_number=2**63 - 1,
    tagged_codes=[1, -1],
    unknown_tags={6: b"later"},
)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_type_survives_a_round_trip(version: int) -> None:
    for message in (Everything(), FULL):
        assert Everything.decode(message.encode(version), version) == message


def test_tagged_fields_of_every_type_survive_a_round_trip() -> None:
    assert Everything.decode(TAGGED.encode(2), 2) == TAGGED
    empty = Everything(tagged_codes=[], tagged_text="")
    assert Everything.decode(empty.encode(2), 2) == empty


def test_truncated_fields_of_every_type_are_rejected() -> None:
    for message, versions in ((FULL, (0, 1, 2)), (TAGGED, (2,))):
        for version in versions:
            encoded = message.encode(version)
            for size in [*range(min(600, len(encoded))), len(encoded) - 1]:
                with pytest.raises(KafkaProtocolError):
                    Everything.decode(encoded[:size], version)


def test_an_ignorable_field_is_left_out_of_versions_without_it() -> None:
    message = Everything(texts=["a", "bc"])
    assert Everything.decode(message.encode(0), 0).texts == []
    assert Everything.decode(message.encode(2), 2).texts == ["a", "bc"]


def test_fields_other_than_records_are_copied() -> None:
    """Otherwise a kept field would keep a frame of 50 MB alive."""
    decoded = Everything.decode(bytearray(FULL.encode(2)), 2)
    assert type(decoded.data) is bytes
    assert [type(blob) for blob in decoded.blobs] == [bytes, bytes]
    assert type(decoded.records) is memoryview


def test_the_error_names_message_and_version() -> None:
    with pytest.raises(KafkaProtocolError, match="^Everything version 2 is truncated at byte 0$"):
        Everything.decode(b"", 2)


def test_trailing_bytes_are_rejected_unless_ignore_trailing() -> None:
    for version in (0, 2):
        encoded = FULL.encode(version)
        with pytest.raises(KafkaProtocolError, match="message ends at byte"):
            Everything.decode(encoded + b"more", version)
        decoded = Everything.decode(b"before" + encoded + b"more", version, 6, ignore_trailing=True)
        assert decoded == Everything.decode(encoded, version)
        with pytest.raises(KafkaProtocolError):
            Everything.decode(encoded[:-1], version, ignore_trailing=True)
