"""Reads the small files that options name: bounded, and without waiting for the writer of a pipe."""

import os

from ..errors import KafkaConfigurationError


def read_file(path: str, where: str, bytes_max: int) -> bytes:
    """Return the content of a file. ``where`` are the words for it in errors.

    Raises:
        KafkaConfigurationError: the file cannot be read, or has more than ``bytes_max`` bytes.
    """
    try:
        # O_NONBLOCK: otherwise open() would wait for a writer if the file was replaced by a named pipe.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            data = file.read(bytes_max + 1) or b""  # None: a pipe with a writer that has written nothing
    except OSError as error:
        raise KafkaConfigurationError(f"{where}: {error.strerror or type(error).__name__}") from None
    if len(data) > bytes_max:
        raise KafkaConfigurationError(f"{where} has more than {bytes_max} bytes")
    return data
