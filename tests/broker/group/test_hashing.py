"""Java's string hash, and the iteration order of a Java HashMap."""

import pytest

from thinconsumer_testing.broker.group.hashing import hash_map_order, java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("The quick brown fox jumps over the lazy dog", -609428141),
        ("polygenelubricants", -(2**31)),
        ("\U0001f600", 1772899),  # two UTF-16 units: 0xd83d * 31 + 0xde00
    ],
)
def test_hash_equals_javas(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_negative_hash_uses_its_absolute_value() -> None:
    """Kafka uses Utils.abs; masking the sign bit would give another partition for half of all groups."""
    value = java_hash("The quick brown fox jumps over the lazy dog")
    assert partition_for("The quick brown fox jumps over the lazy dog", 50) == 609428141 % 50
    assert (value & 0x7FFFFFFF) % 50 != 609428141 % 50


def test_minimum_int_hash_maps_to_partition_0() -> None:
    assert partition_for("polygenelubricants", 50) == 0


def test_order_equals_javas_hash_map() -> None:
    """Up to twelve keys: by the lowest four bits of the hash, mixed with its upper half."""
    assert hash_map_order(["range", "roundrobin"]) == ["range", "roundrobin"]
    assert hash_map_order(["roundrobin", "range", "range"]) == ["range", "roundrobin"]
    assert hash_map_order(["q", "b", "a", "r"]) == ["q", "a", "b", "r"]  # q and a share a bucket: insertion order


def test_larger_map_has_more_buckets() -> None:
    keys = [chr(97 + number) for number in range(13)]  # 97 is 1 in 16 buckets, and 1 in 32
    assert hash_map_order([*keys, "q"]) == [*keys, "q"]
    assert hash_map_order([*keys[:11], "q"]) == ["a", "q", *keys[1:11]]
