"""Flips bits in the record batches of Fetch responses.

Only the batch's checksum and the bytes that it covers are changed: Kafka does not protect the fields before them
(offset, length, leader epoch, magic). Only clients that check checksums get such responses: others may return corrupt
records.
"""

from random import Random

from thinconsumer.records.batch import LOG_OVERHEAD
from thinconsumer.wire import Message
from thinconsumer.wire.fetch import FetchResponse

#: Offset of the checksum within a batch; the bytes that it covers follow.
CRC_AT = 17


class Corruption:
    """Corrupts Fetch responses with records at ``rate``. ``clients`` are the names of those that check checksums."""

    def __init__(self, random: Random, rate: float, clients: set[str]) -> None:
        self.rate = rate
        self.count = 0
        self._random = random
        self._clients = clients

    def __call__(self, client: str, response: Message) -> bool:
        """Flip one bit of a Fetch response with probability ``rate``; return whether a bit was flipped."""
        if not self.rate or client not in self._clients or not isinstance(response, FetchResponse):
            return False
        rows = [data for topic in response.responses for data in topic.partitions if data.records]
        if not rows or self._random.random() >= self.rate:
            return False
        row = self._random.choice(rows)
        row.records = spoiled(bytes(row.records or b""), self._random)
        self.count += 1
        return True


def spoiled(records: bytes, random: Random) -> bytes:
    """Return batches after flipping one bit: equally often in the header and in the records of one of the batches."""
    starts = [at for at in _starts(records) if at + CRC_AT < len(records)]
    if not starts:
        return records
    begin = random.choice(starts)
    end = min(len(records), begin + LOG_OVERHEAD + int.from_bytes(records[begin + 8 : begin + 12], "big"))
    header_end = min(end, begin + 61)
    span = (begin + CRC_AT, header_end) if random.random() < 0.5 or header_end == end else (header_end, end)
    data = bytearray(records)
    data[random.randrange(*span)] ^= 1 << random.randrange(8)
    return bytes(data)


def _starts(records: bytes) -> list[int]:
    starts, at = [], 0
    while at + LOG_OVERHEAD <= len(records):
        starts.append(at)
        at += LOG_OVERHEAD + int.from_bytes(records[at + 8 : at + 12], "big")
    return starts
