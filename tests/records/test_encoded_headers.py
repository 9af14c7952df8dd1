"""Records with encoded headers; test_lazy_rows.py checks those that the decoder builds."""

import copy
import pickle
from types import SimpleNamespace

import pytest
from handmade import encode_record

from thinconsumer.config.values import Deserializer
from thinconsumer.records import rows
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.records.encoded_headers import (
    USE,
    HeaderUse,
    RecordWithEncodedHeaders,
    new_record_with_encoded_headers,
)
from thinconsumer.types import ConsumerRecord

HEADERS = (("trace", b"0123"), ("none", None))
MANY = (("n", None),) * 70


@pytest.fixture
def both(only_batch):
    """Return three records with encoded headers, and the same with decoded ones."""
    records = [NewRecord(b"v", b"k", HEADERS), NewRecord(None, None, ()), NewRecord(b"w", b"k", MANY)]
    plain = only_batch(build_batch(records, base_offset=5)).decode("topic", 3)
    blocks = [encode_record(NewRecord(b"", headers=record.headers), 0, 0) for record in records]
    starts = [len(encode_record(NewRecord(b""), 0, 0)) - 1 + (len(block) > 64) for block in blocks]
    encoded = [block[start:] for block, start in zip(blocks, starts)]
    return [new_record_with_encoded_headers((*one[:8], block)) for one, block in zip(plain, encoded)], plain


def test_records_equal_those_with_decoded_headers(both):
    lazy, plain = both
    assert [type(record) for record in lazy] == [RecordWithEncodedHeaders] * 3
    assert [record.headers for record in lazy] == [HEADERS, (), MANY]
    assert [record.serialized_header_size for record in lazy] == [13, -1, 70]
    assert (lazy, plain, lazy) == (plain, lazy, lazy)
    assert not any(one != other for one, other in zip(lazy + plain, plain + lazy))
    assert all(one != other for one, other in zip(lazy, plain[1:] + plain))
    assert lazy[0] != "a record"
    assert sorted([*lazy, *plain]) == sorted([*plain, *plain]) and max(lazy[0], plain[0]) == plain[0]
    assert all((one <= other, one >= other, one < other) == (True, True, False) for one, other in zip(lazy, plain))
    assert all((one <= other, one >= other, one > other) == (True, True, False) for one, other in zip(plain, lazy))
    assert [*map(hash, lazy)] == [*map(hash, plain)]
    assert repr(lazy) == repr(plain)
    assert [one.with_key_value(1, 2) for one in lazy] == [one.with_key_value(1, 2) for one in plain]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_records_are_pickled_with_decoded_headers(both, protocol):
    """Another version of this package can read them."""
    lazy, plain = both
    again = pickle.loads(pickle.dumps(lazy, protocol))
    assert [type(record) for record in again] == [ConsumerRecord] * 3
    assert again == plain
    assert copy.deepcopy(lazy) == [copy.copy(record) for record in lazy] == plain
    (done, *_), _ = rows.deserialize(lazy, None, Deserializer.adapt(lambda data: 1))
    assert isinstance(done, RecordWithEncodedHeaders)
    assert pickle.loads(pickle.dumps(done, protocol)).serialized_value_size == done.serialized_value_size == 1


@pytest.mark.parametrize("uses_headers", [False, True])
def test_deserializers_get_decoded_headers_if_they_use_them(both, uses_headers):
    seen = []

    def value_of(topic, headers, data):
        seen.append(headers)
        return data.decode()

    plain = Deserializer.adapt(bytes.decode)
    deserializer = Deserializer.adapt(SimpleNamespace(deserialize=value_of)) if uses_headers else plain
    done, error = rows.deserialize(both[0], None, deserializer)
    expected, _ = rows.deserialize(both[1], None, plain)
    assert (done, error) == (expected, None)
    assert type(done[0]) is (ConsumerRecord if uses_headers else RecordWithEncodedHeaders)
    if uses_headers:
        assert seen == [HEADERS, MANY]


def test_a_program_that_reads_no_headers_has_none_decoded():
    use = HeaderUse()
    assert [use.is_common(4000) for _ in range(100)] == [False] * 100


def test_a_program_that_reads_headers_has_them_decoded_but_for_a_sample():
    use = HeaderUse()
    decoded = []
    for _ in range(3 * (HeaderUse.GROUPS + 1)):
        decoded.append(use.is_common(4000))
        if not decoded[-1]:
            use.reads += 4000
    assert decoded == [False, *[True] * HeaderUse.GROUPS] * 3


def test_a_program_that_stops_to_read_headers_has_none_decoded():
    use = HeaderUse()
    use.is_common(4000)
    use.reads = 4000
    assert [use.is_common(4000) for _ in range(HeaderUse.GROUPS + 10)] == [True] * HeaderUse.GROUPS + [False] * 10


@pytest.mark.parametrize(("reads", "pays"), [(0, False), (499, False), (500, True)])
def test_headers_that_are_rarely_read_are_not_decoded_for_all_records(reads, pays):
    use = HeaderUse()
    use.is_common(4000)
    use.reads = reads
    assert use.is_common(4000) is pays


def test_reading_headers_is_noted(both):
    before = USE.reads
    assert [len(record.headers) for record in both[0]] == [2, 0, 70]
    assert USE.reads == before + 3
