"""The first checksum imports the native implementation, which then replaces the importing function."""

import crc32c

from thinconsumer.records import checksum


def test_the_first_checksum_installs_the_native_function(monkeypatch):
    monkeypatch.setattr(checksum, "crc32c", checksum._import_and_compute)
    assert checksum.crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C
    assert checksum.crc32c is crc32c.crc32c
    assert checksum.crc32c(memoryview(b"123456789")) == 0xE3069283


def test_the_description_names_the_version():
    assert checksum.describe().startswith("native, in ")
    assert crc32c.__version__ in checksum.describe()
