"""Header keys that are not UTF-8: the same U+FFFD as Java's console consumer printed."""

import pytest

from thinconsumer.records.batches import split
from thinconsumer.records.builder import NewRecord, build_batch

#: Bytes of header names in a batch, and the text that Java reads.
NAMES = {
    b"\xed\xa0\x80.": "\ufffd.",  # an encoded surrogate is one mistake in Java, three in Python
    b"\xed\xbf\xbf.": "\ufffd.",
    b"\xed\xa0..": "\ufffd..",
    b"\xed\x9f\xbf.": "\ud7ff.",  # the last character before them is none
    b"A\xffB\xfe": "A\ufffdB\ufffd",
    b"\xf0\x9f\x98.": "\ufffd.",
    b"\xc0\x80..": "\ufffd\ufffd..",
    b"\xe2\x82..": "\ufffd..",
}


@pytest.mark.parametrize("raw", NAMES)
def test_keys_that_are_not_utf8_are_replaced_as_in_java(raw):
    plain = build_batch([NewRecord(b"v", b"k", [("NAME", b"1"), ("NAME", None)])])
    batches, _ = split(memoryview(plain.replace(b"NAME", raw)))
    (record,) = batches[0].decode("t", 0, check_crcs=False)
    assert record.headers == ((NAMES[raw], b"1"), (NAMES[raw], None))
