"""Which offsets are finished as Java's parallel-consumer writes it, so that workers can go on where it has stopped.

Its metadata are base64 of one byte, which names the form, and a body. Offsets are relative to the committed one:

=========  ============================================================================================
``l``      2 bytes: how many offsets; a bit for each, lowest bit first, 1 for finished
``o``      the same with 4 bytes of length
``n``      numbers of 2 bytes: lengths of runs of offsets, in turn unfinished and finished
``e``      the same with numbers of 4 bytes
a s J p    ``l``, ``o``, ``n`` and ``e``, compressed by zstd
=========  ============================================================================================
"""

from __future__ import annotations

import struct
from base64 import b64decode

from ..records.compression import Codec, CodecError, decompress
from .offset_map import PREFIX, TEXT_MAX, OffsetMap, OffsetMapError, decode

_COMPRESSED = {ord("a"): ord("l"), ord("s"): ord("o"), ord("J"): ord("n"), ord("p"): ord("e")}
_BITS = {ord("l"): ">h", ord("o"): ">i"}
_RUNS = {ord("n"): ">h", ord("e"): ">i"}
#: The longest body and the most unfinished offsets that are read, which bound the memory that a commit can take.
BODY_MAX, UNFINISHED_MAX = 128 * 1024, 1_000_000


def decode_any(text: str, offset: int, topic_id: bytes) -> OffsetMap | None:
    """Read the metadata of a commit of ``offset``, by workers or parallel-consumer. Raises OffsetMapError."""
    return decode(text, offset, topic_id) if text.startswith(PREFIX) else decode_foreign(text, offset)


def decode_foreign(text: str, offset: int) -> OffsetMap | None:
    """Read what parallel-consumer has written into the metadata of a commit of ``offset``.

    Leader epochs and the topic id, by which workers notice that a topic was made anew, are not part of it: its epochs
    are unknown. Returns None if it names no finished offset. Raises OffsetMapError if the text has another form.
    """
    if len(text) > TEXT_MAX:
        raise OffsetMapError(f"it has {len(text)} characters")
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        raise OffsetMapError("it is not base64") from None
    form, body = data[0] if data else 0, data[1:]
    if form in _COMPRESSED:
        form = _COMPRESSED[form]
        try:
            body = decompress(Codec.ZSTD, memoryview(body))
        except CodecError as error:
            raise OffsetMapError(f"it cannot be decompressed: {error}") from None
    if len(body) > BODY_MAX:
        raise OffsetMapError(f"it has {len(body)} bytes")
    if form in _BITS:
        unfinished, end = _from_bits(body, _BITS[form])
    elif form in _RUNS:
        unfinished, end = _from_runs(body, _RUNS[form])
    else:
        raise OffsetMapError("it was not written by parallel-consumer")
    if end < 2:
        return None
    # The committed offset is an unfinished one. If it is called finished, it was never received.
    behind = [offset + each for each in unfinished if each]
    return OffsetMap(offset, offset + end, behind, [(offset, -1)])


def _from_bits(body: bytes, length: str) -> tuple[list[int], int]:
    """Return the unfinished offsets below the last finished one, and the offset after it, relative to the first."""
    size = struct.calcsize(length)
    if len(body) < size:
        raise OffsetMapError("it ends early")
    count = struct.unpack_from(length, body)[0]
    bits = body[size:]
    if not 0 <= count <= 8 * len(bits):
        raise OffsetMapError(f"it has {len(bits)} bytes for {count} offsets")
    number = int.from_bytes(bits, "little") & (1 << count) - 1
    end = number.bit_length()
    return [at for at in range(end) if not bits[at >> 3] >> (at & 7) & 1], end


def _from_runs(body: bytes, length: str) -> tuple[list[int], int]:
    """Return the unfinished offsets below the last finished one, and the offset after it, relative to the first."""
    if len(body) % struct.calcsize(length):
        raise OffsetMapError("it ends early")
    unfinished: list[int] = []
    at = end = 0
    is_finished = False
    for (run,) in struct.iter_unpack(length, body):
        if run < 0:
            raise OffsetMapError(f"it has a run of {run} offsets")
        at += run
        if is_finished and run:
            between = range(end, at - run)
            if len(unfinished) + len(between) > UNFINISHED_MAX:
                raise OffsetMapError(f"it names more than {UNFINISHED_MAX} unfinished offsets")
            unfinished += between
            end = at
        is_finished = not is_finished
    return unfinished, end
