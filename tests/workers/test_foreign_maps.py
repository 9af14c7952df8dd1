"""What parallel-consumer 0.5.3.2 has written is read: its own encoder has made the texts."""

import struct
from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer import ConsumerRecord, OffsetAndMetadata, TopicPartition
from thinconsumer.records.compression import Codec, compress
from thinconsumer.workers import WorkerSettings
from thinconsumer.workers.foreign_maps import BODY_MAX, UNFINISHED_MAX, decode_foreign
from thinconsumer.workers.offset_map import OffsetMap, OffsetMapError
from thinconsumer.workers.work import Assigned, Work

pytestmark = pytest.mark.once

A = TopicPartition("t", 0)
#: By form: the offsets 40 to 46, of which 40, 42 and 44 are unfinished.
FEW = {
    "l": "bAAHagA=", "a": "YSi1L/0AWCEAAAAHagA=", "n": "bgABAAEAAQABAAEAAg==", "J": "Sii1L/0AWE0AABgAAQIBABUOCw==",
    "o": "bwAAAAdqAA==", "s": "cyi1L/0AWDEAAAAAAAdqAA==", "e": "ZQAAAAEAAAABAAAAAQAAAAEAAAABAAAAAg==",
    "p": "cCi1L/0AWF0AACgAAAABAgEAJ44I",
}  # fmt: skip
#: By form: the offsets 1000 to 1299, of which :func:`many` are unfinished.
MANY = {
    "l": "bAEsYL/f7/f7/X6/3+/3+/1+v9/v9/v9fr/f7wEAAAAAAAAAAAAAvA8A",
    "a": "YSi1L/0AWL0AAHgBLGC/3+/3+/1+AQC8DwACALgCay5I",
    "J": "Sii1L/0AWMUAAIgABQACAAEABgQAWQAEAAEABQEA6NRxAQ==",
    "o": "bwAAASxgv9/v9/v9fr/f7/f7/X6/3+/3+/1+v9/vAQAAAAAAAAAAAAC8DwA=",
    "s": "cyi1L/0AWM0AAIgAAAEsYL/f7/f7/X4BALwPAAIAuAJrLkk=",
    "p": "cCi1L/0AWB0BANAAAAAFAAAAAgAAAAEAAAAGBAAAAFkBAAAABQIAINOoo8oS",
}
#: The first commit of a partition at 5 of which nothing was received: its offset is called finished.
NOTHING = {
    "l": "bAABAQA=", "a": "YSi1L/0AWCEAAAABAQA=", "n": "bgAAAAE=", "J": "Sii1L/0AWCEAAAAAAAE=", "o": "bwAAAAEBAA==",
    "s": "cyi1L/0AWDEAAAAAAAEBAA==", "e": "ZQAAAAAAAAAB", "p": "cCi1L/0AWEEAAAAAAAAAAAAB",
}  # fmt: skip


def many():
    return [o for o in range(1001, 1300) if o % 7 == 6 or o < 1005 or 1200 < o < 1290]


@pytest.mark.parametrize("form", FEW)
def test_each_form_is_read(form):
    assert b64decode(FEW[form])[:1] == form.encode()
    assert decode_foreign(FEW[form], 40) == OffsetMap(40, 47, [42, 44], [(40, -1)])
    if form in MANY:
        assert decode_foreign(MANY[form], 1000) == OffsetMap(1000, 1300, many(), [(1000, -1)])


@pytest.mark.parametrize("form", NOTHING)
def test_an_offset_that_was_never_received_is_not_taken_for_finished(form):
    assert decode_foreign(NOTHING[form], 5) is None


def text(form, body):
    return b64encode(form.encode() + body).decode()


def test_unfinished_offsets_behind_the_last_finished_one_are_left_out():
    assert decode_foreign(text("n", struct.pack(">6h", 2, 1, 0, 0, 3, 0)), 0) == OffsetMap(0, 3, [1], [(0, -1)])
    runs = struct.pack(">4h", 3, 0, 2, 1)  # five unfinished ones in two runs
    assert decode_foreign(text("n", runs), 0) == OffsetMap(0, 6, [1, 2, 3, 4], [(0, -1)])
    assert decode_foreign(text("l", struct.pack(">h", 3) + b"\xfa"), 0) == OffsetMap(0, 2, [], [(0, -1)])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("!", "not base64"), ("", "not written by"), (text("x", b"1"), "not written by"), ("A" * 65_540, "characters"),
        (text("l", b"\0"), "ends early"), (text("l", b"\0\7"), "0 bytes for 7"), (text("o", b"\xff" * 9), "for -1"),
        (text("e", b"\0"), "ends early"), (text("n", b"\xff\xff"), "run of -1"), (text("a", b"12345"), "decompressed"),
        (text("e", struct.pack(">2i", UNFINISHED_MAX + 1, 1)), "more than 1000000 unfinished"),
        (text("a", compress(Codec.ZSTD, bytes(BODY_MAX + 1))), "has 131073 bytes"),
    ],
    ids=lambda each: each[:20],
)  # fmt: skip
def test_other_texts_are_refused_with_a_reason(words, reason):
    with pytest.raises(OffsetMapError, match=reason):
        decode_foreign(words, 0)


@given(st.sampled_from("loneasJp"), st.binary(max_size=40), st.booleans())
def test_any_bytes_are_read_or_refused(form, body, is_packed):
    if is_packed and form in "asJp":
        body = compress(Codec.ZSTD, body)
    try:
        found = decode_foreign(text(form, body), 100)
    except OffsetMapError:
        return
    if found is not None:
        covered = range(101, found.end - 1)
        assert all(each in covered for each in found.unfinished)
        assert sorted(set(found.unfinished)) == found.unfinished


def test_a_map_that_no_commit_of_workers_could_hold_is_not_used(caplog):
    work = Work(WorkerSettings(take_over="parallel-consumer", metadata_max=64))
    work.assign({A: Assigned(OffsetAndMetadata(1000, MANY["p"]), bytes(16))})
    assert "is not used, as it would be too large" in caplog.text
    assert work.dispatcher.lanes[A].progress.count == 0


@pytest.mark.parametrize("take_over", ["parallel-consumer", None])
def test_a_group_of_parallel_consumer_is_taken_over_if_that_is_asked_for(take_over, caplog):
    """The map that the workers commit then names the same, and is read without the option."""
    work = Work(WorkerSettings(take_over=take_over))
    work.assign({A: Assigned(OffsetAndMetadata(40, FEW["s"]), bytes(16))})
    records = [ConsumerRecord("t", 0, 5, offset, 0, 0, b"k%d" % offset, b"v") for offset in range(40, 50)]
    work.take({A: records[:3]}, 0.0)
    found = []
    while (job := work.next_job(0.0)) is not None:
        found += job.offsets
    assert found == ([40, 42] if take_over else [40, 41, 42])
    assert ("is not used, as it was written by another program" in caplog.text) == (take_over is None)
    if take_over:
        other = Work(WorkerSettings())
        other.assign({A: Assigned(OffsetAndMetadata(40, work.dispatcher.lanes[A].progress.metadata()), bytes(16))})
        other.take({A: records}, 0.0)
        found = []
        while (job := other.next_job(0.0)) is not None:
            found += job.offsets
        assert found == [40, 42, 44, 47, 48, 49]
