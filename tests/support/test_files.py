"""Reading the files that options name: bounded, and with errors that name the option's words for the file."""

import io

import pytest

from thinconsumer.errors import KafkaConfigurationError
from thinconsumer.support import files
from thinconsumer.support.files import read_file


def test_the_size_is_bounded(tmp_path):
    path = tmp_path / "key"
    path.write_bytes(b"12345")
    assert read_file(str(path), "the key", 5) == b"12345"
    with pytest.raises(KafkaConfigurationError, match="^the key has more than 4 bytes$"):
        read_file(str(path), "the key", 4)


def test_an_endless_file_is_not_read_to_its_end(monkeypatch):
    class Endless(io.BytesIO):
        def read(self, size=-1):
            assert size >= 0
            return b"x" * size

    monkeypatch.setattr(files, "open", lambda *arguments, **more: Endless(), raising=False)
    with pytest.raises(KafkaConfigurationError, match="has more than 100 bytes"):
        read_file("/dev/zero", "the key", 100)


def test_a_file_that_is_missing(tmp_path):
    with pytest.raises(KafkaConfigurationError, match="^the key: No such file or directory$") as caught:
        read_file(str(tmp_path / "none"), "the key", 100)
    assert caught.value.__cause__ is None
