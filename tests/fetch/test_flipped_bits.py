"""One damaged batch in segments that Kafka has written: all other records come, before the error and after ``skip``.

For each bit that a checksum covers, the response has the segment with that bit flipped. A broker answers each Fetch
from the batch with the requested offset on. See tests/golden/README.md for the segments.
"""

from pathlib import Path

import pytest

from thinconsumer.errors import CorruptRecordError, RecordError
from thinconsumer.fetch import chunks
from thinconsumer.positions.states import PositionEvent
from thinconsumer.records.batches import split

SEGMENTS = sorted((Path(__file__).parents[1] / "golden" / "segments").glob("*.segment"))
NEW = [path for path in SEGMENTS if path.name.startswith("format-2")]
#: The first byte that the checksum covers, and the checksum itself: by format.
FIRST_BYTE = {0: 12, 1: 12, 2: 17}
READS = {
    "rows": lambda collector: collector.gather(500),
    "columns": lambda collector: collector.gather_columns(1 << 20),
    "raw": lambda collector: collector.gather_raw(1 << 20),
}


class Segment:
    """A segment, the offsets of its records by batch, and a consumer that reads damaged copies of it."""

    def __init__(self, make, kit, path, **options):
        self.data = path.read_bytes()
        self.batches, error = split(memoryview(self.data))
        assert error is None
        self.starts, self.ends = self.batches.starts, [batch.next_offset for batch in self.batches]
        self.offsets = [[record.offset for record in batch.decode("t", 0)] for batch in self.batches]
        self.world = make(**options)
        self.partition, self.other = self.world.simple(0, 0)
        self.healthy = kit.batch(0, 2)

    def bits(self, index, every=1, *, first=None):
        """Return the bits of the batch that its checksum covers, or those from another byte on before them."""
        begin = FIRST_BYTE[self.batches[index].magic] if first is None else 0
        end = self.starts[index + 1] - self.starts[index] if first is None else first
        return range(8 * (self.starts[index] + begin), 8 * (self.starts[index] + end), every)

    def flipped(self, bit):
        damaged = bytearray(self.data)
        damaged[bit // 8] ^= 1 << bit % 8
        return damaged

    def others(self, index):
        return [offset for number, some in enumerate(self.offsets) if number != index for offset in some]

    def read(self, damaged, how, errors_max=3):
        """Read everything, and skip each error; return the offsets of the two partitions, and the errors."""
        for partition in (self.partition, self.other):
            partition.place(PositionEvent.SEEK, 0)
        found, errors = {0: [], 1: []}, []
        for _ in range(40):
            if len(errors) > errors_max:
                break
            try:
                poll_result = READS[how](self.world.collector)
            except RecordError as error:
                errors.append(error)
                self._skip(error)
                continue
            for tp, offsets in _offsets(poll_result, how).items():
                found[tp.partition] += offsets
            self.world.collector.settle(poll_result)
            if not poll_result.moves:
                if self.partition.error is not None:
                    errors.append(self.partition.error)
                    self._skip(self.partition.error)
                elif self.partition.cursor.offset >= self.ends[-1] and found[1]:
                    break
                self._answer(damaged)
        return found[0], found[1], errors

    def _skip(self, error):
        assert error.next_offset > error.offset
        if self.partition.cursor.offset < error.next_offset:  # as ``Consumer.skip``
            self.partition.place(PositionEvent.SEEK, error.next_offset)

    def _answer(self, damaged):
        world = self.world
        world.validation.step(world.now)
        world.now += 100
        for sent in world.fetches().values():
            data = {}
            if self.other.cursor.fetch_offset == 0:
                data[self.other.tp] = self.healthy
            offset = self.partition.cursor.fetch_offset
            index = next((index for index, end in enumerate(self.ends) if end > offset), None)
            if index is not None:
                records = bytes(damaged[self.starts[index] :])
                data[self.partition.tp] = {"records": records, "high_watermark": self.ends[-1]}
            sent.answer(data)


def _offsets(poll_result, how):
    if how == "rows":
        return {tp: [record.offset for record in records] for tp, records in poll_result.records.items()}
    if how == "columns":
        return {tp: columns.offsets.tolist() for tp, columns in poll_result.records.items()}
    return {tp: [row.offset for raw in some for row in raw.decode()] for tp, some in poll_result.records.items()}


@pytest.fixture
def segment(make, kit):
    def of(path, **options):
        if "snappy" in path.stem:
            pytest.importorskip("cramjam")
        return Segment(make, kit, path, **options)

    return of


def check(one, index, bits, how):
    for bit in bits:
        found, healthy, errors = one.read(one.flipped(bit), how)
        where = f"bit {bit % 8} of byte {bit // 8 - one.starts[index]}"
        assert found == one.others(index), where
        assert healthy == [0, 1], where
        assert len(errors) == 1 and isinstance(errors[0], CorruptRecordError), where
        assert errors[0].offset <= one.offsets[index][-1] < errors[0].next_offset, where


@pytest.mark.parametrize("path", SEGMENTS, ids=lambda path: path.stem)
def test_a_flipped_bit_costs_its_batch_only(segment, path, monkeypatch):
    """Every bit, decoded one batch at a time."""
    monkeypatch.setattr(chunks, "TOGETHER_MIN", 10**9)
    one = segment(path)
    check(one, 2, one.bits(2), "rows")


@pytest.mark.parametrize("how", READS)
@pytest.mark.parametrize("index", ["first", "middle", "last"])
@pytest.mark.parametrize("path", SEGMENTS, ids=lambda path: path.stem)
def test_a_flipped_bit_costs_its_batch_only_in_each_form_and_place(segment, path, index, how, monkeypatch):
    """Some bits, and rows that are decoded together."""
    pytest.importorskip("numpy")
    monkeypatch.setattr(chunks, "TOGETHER_MIN", 1)
    one = segment(path)
    number = {"first": 0, "middle": 2, "last": len(one.ends) - 1}[index]
    check(one, number, one.bits(number, 37), how)
    if one.batches[number].magic == 2:
        check(
            one, number, range(8 * (one.starts[number] + 23), 8 * (one.starts[number] + 27)), how
        )  # last offset delta


@pytest.mark.parametrize("path", NEW, ids=lambda path: path.stem)
def test_a_damaged_base_offset_or_length_costs_its_batch_only(segment, path):
    """No checksum covers these fields: offsets are found to be wrong, and lengths lead to bytes that are no batch."""
    one = segment(path)
    for bit in one.bits(2, first=12):
        found, healthy, errors = one.read(one.flipped(bit), "rows")
        where = f"bit {bit % 8} of byte {bit // 8 - one.starts[2]}"
        assert (found, healthy) == (one.others(2), [0, 1]), where
        assert len(errors) == 1, where


@pytest.mark.parametrize("how", READS)
@pytest.mark.parametrize("check_crcs", [True, False])
def test_a_wrong_offset_delta_among_batches_of_one_record(segment, kit, tmp_path, how, check_crcs):
    """The overlap of two batches made the whole response unusable, and ``skip`` led behind all of it."""
    if how == "columns":
        pytest.importorskip("numpy")
    path = tmp_path / "small.segment"
    path.write_bytes(b"".join(kit.batch(offset) for offset in range(1000)))
    one = segment(path, check_crcs=check_crcs)
    damaged = one.flipped(8 * (one.starts[2] + 26) + 3)
    assert split(memoryview(damaged))[0][2].next_offset == 11
    found, _, errors = one.read(damaged, how)
    assert found in ([one.others(2)] if check_crcs else [one.others(2), one.others(-1)])
    assert [(error.offset, error.next_offset) for error in errors] in ([(2, 3)], [])
