"""Fixtures that decode the same batches by rows and as columns; the row decoder's result is the expected one."""

import struct
from contextlib import contextmanager

import pytest

from thinconsumer.errors import RecordError
from thinconsumer.records.batches import split
from thinconsumer.records.builder import build_batch
from thinconsumer.records.encoded_headers import USE
from thinconsumer.types import TopicPartition

TP = TopicPartition("topic", 3)


def by_rows(batches, check_crcs):
    """Return each batch's records or error from the row decoder."""
    found = []
    for batch in batches:
        try:
            found.append(batch.decode(*TP, check_crcs))
        except RecordError as error:
            found.append(shown(error))
    return found


@contextmanager
def small_records_max(records):
    """Set how many records are still decoded one by one; 0 for none."""
    from thinconsumer.records.columnar import decode

    before, decode.SMALL_RECORDS_MAX = decode.SMALL_RECORDS_MAX, records
    try:
        yield
    finally:
        decode.SMALL_RECORDS_MAX = before


@contextmanager
def headers_decoded(decoded):
    """Have headers decoded with their records, or only when they are read."""
    USE.reads, before, USE.groups_left = 0, USE.groups_left, 10**6 if decoded else 0
    try:
        yield
    finally:
        USE.groups_left = before


def shown(error):
    return type(error), str(error), error.offset, error.next_offset


def add_all(batches, end, check_crcs):
    """Return a decoder with the batches before ``end``, a result for each, and the indices of results still to come.

    A batch that cannot be added has its error as the result.
    """
    from thinconsumer.records.columnar.decode import Decoder

    decoder, found, numbers = Decoder(check_crcs), [], []
    while len(found) < end:
        before = len(decoder)
        error = decoder.add(batches, TP, len(found), end)
        for _ in range(len(decoder) - before):
            numbers.append(len(found))
            found.append([])
        if error is not None:
            found.append(shown(error))
    return decoder, found, numbers


def by_columns(batches, end, check_crcs):
    """Decode the batches before ``end`` at once as columns; return the same as :func:`by_rows`."""
    decoder, found, numbers = add_all(batches, end, check_crcs)
    decoded = decoder.finish()
    for number, place in enumerate(numbers):
        error = decoded.errors.get(number)
        columns = decoded.columns(TP, number, number + 1, 0)
        found[place] = columns.rows()
        if error is not None:
            assert not len(columns)
            found[place] = shown(error)
    if not decoded.errors:
        together = decoded.columns(TP, 0, len(decoder), 0)
        assert together.rows() == [row for place in numbers for row in found[place]]
    return found


def together(batches, end, check_crcs, records_min):
    """Decode the batches before ``end`` at once to records; return the same as :func:`by_rows`."""
    decoder, found, numbers = add_all(batches, end, check_crcs)
    decoded = decoder.rows(records_min)
    for number, place in enumerate(numbers):
        rows = list(decoded.records(TP, number, number + 1))
        assert not rows or number not in decoded.errors
        found[place] = shown(decoded.errors[number]) if number in decoded.errors else rows
    return found


@pytest.fixture(scope="session")
def agree():
    """Return a function that decodes batches (bytes) in all ways, asserts equal results, and returns them."""

    def check(data, check_crcs=True):
        batches, _ = split(memoryview(data))
        rows = by_rows(batches, check_crcs)
        end, few = len(batches), min(3, len(batches))
        with small_records_max(0):
            assert by_columns(batches, end, check_crcs) == rows
        for is_decoded in (True, False):
            with headers_decoded(is_decoded):
                assert together(batches, end, check_crcs, 1) == rows
        assert by_columns(batches, few, check_crcs) == rows[:few]
        assert together(batches, few, check_crcs, 100) == rows[:few]
        return rows

    return check


@pytest.fixture(scope="session")
def decoding_headers():
    """Return a context manager in which headers are decoded with their records, or only when they are read."""
    return headers_decoded


@pytest.fixture(scope="session")
def columns():
    """Return a function that decodes batches (bytes) as columns and expects no error."""
    from thinconsumer.records.columnar.decode import Decoder

    def read(data, start=0, tp=TP):
        decoder = Decoder()
        assert decoder.add(split(memoryview(data))[0], tp) is None
        with small_records_max(0):
            decoded = decoder.finish()
        assert not decoded.errors
        return decoded.columns(tp, 0, len(decoder), start)

    return read


@pytest.fixture(scope="session")
def wrong_crc_batch():
    """Return a function that wraps bytes into a batch with a claimed record count and a wrong checksum."""

    def put(body, count, base_offset=10, last_offset_delta=None):
        delta = max(count - 1, 0) if last_offset_delta is None else last_offset_delta
        head = bytearray(build_batch([], base_offset=base_offset, last_offset_delta=delta))
        struct.pack_into(">i", head, 8, 49 + len(body))
        struct.pack_into(">i", head, 57, count)
        return bytes(head) + body

    return put
