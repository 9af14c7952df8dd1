"""What the benchmarks read: topics of known content and batch size, written with confluent-kafka, which is fast.

Owns the contents. ``floor`` checks on the log that batches came out as the table says.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

Message = tuple[bytes | None, bytes | None, list[tuple[str, bytes]] | None]
NAMES = ("anna", "béla", "chloé", "dmitri", "emeka", "fatima", "günter", "hana")


@dataclass(frozen=True)
class Topic:
    """One topic to read. ``batch_bytes`` is the producer's limit for a batch, before compression."""

    name: str
    what: str
    partitions: int
    codec: str
    batch_bytes: int
    content: str
    #: The producer's limit of records in a batch; None: only ``batch_bytes`` limits it.
    batch_records: int | None = None
    #: The part of the run's records that this topic has.
    share: float = 1.0


TOPICS = (
    Topic("plain", "100 B constant, 1 partition, uncompressed, 16 kB batches", 1, "none", 16384, "constant"),
    Topic("lz4", "100 B constant, 6 partitions, lz4, 16 kB batches", 6, "lz4", 16384, "constant"),
    Topic("zstd", "100 B constant, 6 partitions, zstd, 16 kB batches", 6, "zstd", 16384, "constant"),
    Topic(
        "json16",
        "JSON 50-150 B, keys, some headers and nulls, 6 partitions, lz4, 16 kB batches",
        6,
        "lz4",
        16384,
        "json",
    ),
    Topic(
        "json64",
        "JSON 50-150 B, keys, some headers and nulls, 6 partitions, lz4, 64 kB batches",
        6,
        "lz4",
        65536,
        "json",
    ),
    Topic("json16-plain", "the same, 1 partition, uncompressed, 16 kB batches", 1, "none", 16384, "json"),
    Topic("documents", "JSON 150-600 B, 1 partition, uncompressed, 64 kB batches", 1, "none", 65536, "documents"),
    Topic("documents-lz4", "JSON 150-600 B, 6 partitions, lz4, 16 kB batches", 6, "lz4", 16384, "documents"),
    Topic("documents-zstd", "JSON 150-600 B, 6 partitions, zstd, 64 kB batches", 6, "zstd", 65536, "documents"),
    Topic("six", "JSON of about 100 B, 6 partitions, lz4, batches of six", 6, "lz4", 16384, "short", 6),
    Topic("one", "JSON of about 100 B, 6 partitions, uncompressed, batches of one", 6, "none", 16384, "short", 1),
    Topic("headers", "JSON 150-600 B with five headers, 6 partitions, lz4, 16 kB batches", 6, "lz4", 16384, "headers"),
    Topic("large", "JSON of 20 kB, 1 partition, uncompressed, 64 kB batches", 1, "none", 65536, "large", share=0.05),
)
#: Text of random and of equal sizes in batches of all sizes: records of one size are kind to the decoder of rows.
TEXTS = tuple(
    Topic(f"text-{name}", f"{content}, {partitions} partitions, {codec}, batches of {size} B", partitions, codec, size,
          content, records, share)
    for name, content, partitions, codec, size, records, share in (
        ("plain", "text", 1, "none", 16384, None, 1.0),
        ("lz4", "text", 6, "lz4", 16384, None, 1.0),
        ("lz4-64k", "text", 6, "lz4", 65536, None, 1.0),
        ("zstd", "text", 6, "zstd", 16384, None, 1.0),
        ("1k", "text of 1 kB", 1, "none", 16384, None, 0.3),
        ("1k-lz4", "text of 1 kB", 6, "lz4", 16384, None, 0.3),
        ("1k-zstd", "text of 1 kB", 6, "zstd", 65536, None, 0.3),
        ("large-batches", "text", 1, "none", 1_000_000, None, 1.0),
        ("single", "text", 1, "none", 16384, 1, 0.2),
        ("10-a-batch", "text", 1, "none", 16384, 10, 0.5),
        ("headers", "text with headers", 1, "none", 16384, None, 1.0),
        ("20k", "text of 20 kB", 1, "none", 65536, None, 0.02),
        ("100k", "text of 100 kB", 1, "none", 65536, 1, 0.004),
    )
)  # fmt: skip


def constant(count: int) -> Iterator[Message]:
    """Yield the same 100 bytes, again and again."""
    return itertools.repeat((b"x" * 100, None, None), count)


def json_like(count: int) -> Iterator[Message]:
    """Yield what services write: JSON of changing size, keys of 20 bytes; one in 20 has headers, one in 50 is null."""
    chance = random.Random(1)
    # Making two million of them would take longer than all readers together: a pool, too large to compress away.
    pool = [_message(chance, number) for number in range(20_000)]
    for number in range(count):
        yield pool[(number * 7919) % len(pool)]


def _message(chance: random.Random, number: int) -> Message:
    key = f"customer-{chance.randrange(10**11):011d}".encode()
    headers = [("trace", chance.randbytes(16)), ("source", b"till")] if chance.random() < 0.05 else None
    if chance.random() < 0.02:
        return None, key, headers
    order = {"id": number, "name": chance.choice(NAMES), "paid": round(chance.uniform(1, 500), 2), "note": ""}
    bare = len(json.dumps(order))
    order["note"] = "".join(chance.choices("abcdefghij klmnop", k=max(0, chance.randint(50, 150) - bare)))
    return json.dumps(order).encode(), key, headers


def documents(count: int) -> Iterator[Message]:
    """Yield JSON documents of 150 to 600 bytes, with a key for nine of ten and a header for every third."""
    return _from_pool(count, 150, 600)


def documents_with_headers(count: int) -> Iterator[Message]:
    """Yield the same documents with five headers each, as tracing and CloudEvents add them."""
    chance = random.Random(3)
    pool = [(value, key, _traced(chance)) for value, key, _ in _from_pool(20_000, 150, 600)]
    for number in range(count):
        yield pool[number % len(pool)]


def _traced(chance: random.Random) -> list[tuple[str, bytes]]:
    return [
        ("traceparent", f"00-{chance.randbytes(16).hex()}-{chance.randbytes(8).hex()}-01".encode()),
        ("ce_id", chance.randbytes(16).hex().encode()),
        ("ce_source", b"/orders"),
        ("ce_type", chance.choice([b"order.paid", b"order.sent"])),
        ("content-type", b"application/json"),
    ]


def short_documents(count: int) -> Iterator[Message]:
    """Yield the same kind of documents, of 80 to 120 bytes."""
    return _from_pool(count, 80, 120)


def large_documents(count: int) -> Iterator[Message]:
    """Yield the same kind of documents, of 20 kB."""
    return _from_pool(count, 19_000, 21_000, pool_size=200)


def _from_pool(count: int, smallest: int, largest: int, pool_size: int = 20_000) -> Iterator[Message]:
    chance = random.Random(2)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(2000)]
    pool = [_document(chance, number, words, chance.randint(smallest, largest)) for number in range(pool_size)]
    for number in range(count):
        yield pool[(number * 7919) % len(pool)]


def _document(chance: random.Random, number: int, words: list[str], size: int) -> Message:
    """Return an order in JSON of about ``size`` bytes: numbers, times, names, items, and a text that fills it up."""
    order: dict[str, Any] = {"id": chance.randrange(10**9), "at": f"2026-03-{chance.randint(1, 28):02d}T10:00:00Z"}
    fields = {
        "customer": {"name": chance.choice(NAMES), "city": chance.choice(words), "vip": chance.random() < 0.1},
        "total": round(chance.uniform(1, 5000), 2),
        "items": [
            {"sku": f"{chance.randrange(10**8):08d}", "count": chance.randint(1, 9)}
            for _ in range(chance.randint(1, 5))
        ],
    }
    for name, field in fields.items():
        if len(json.dumps({**order, name: field})) < size - 20:
            order[name] = field
    order["note"] = ""
    room = size - len(json.dumps(order))
    order["note"] = " ".join(chance.choice(words) for _ in range(room // 2))[: max(0, room)]
    key = None if chance.random() < 0.1 else f"customer-{chance.randrange(10**7)}".encode()
    headers = [("trace", chance.randbytes(16).hex().encode())] if number % 3 == 0 else None
    return json.dumps(order).encode(), key, headers


def text(count: int, smallest: int, largest: int, headers: list[tuple[str, bytes]] | None = None) -> Iterator[Message]:
    """Yield text that compresses to a third or so, of random length."""
    chance = random.Random(1)
    words = [chance.randbytes(chance.randint(2, 9)).hex().encode() for _ in range(2000)]
    long = b" ".join(chance.choice(words) for _ in range(200_000))
    for _ in range(count):
        size = chance.randint(smallest, largest)
        start = chance.randrange(len(long) - size)
        yield long[start : start + size], None, headers


CONTENTS = {
    "constant": constant, "json": json_like, "documents": documents, "short": short_documents,
    "headers": documents_with_headers, "large": large_documents,
    "text": partial(text, smallest=50, largest=150),
    "text with headers": partial(
        text, smallest=50, largest=150, headers=[("trace", b"0123456789abcdef"), ("source", b"till")]
    ),
    "text of 100 B": partial(text, smallest=100, largest=100),
    "text of 1 kB": partial(text, smallest=1000, largest=1000),
    "text of 20 kB": partial(text, smallest=20_000, largest=20_000),
    "text of 100 kB": partial(text, smallest=100_000, largest=100_000),
}  # fmt: skip


def write(bootstrap: str, topic: Topic, name: str, count: int) -> None:
    """Write ``count`` records to the topic ``name``, in turns to each partition."""
    settings = {
        "compression.type": topic.codec,
        "batch.size": topic.batch_bytes,
        "batch.num.messages": topic.batch_records or 100_000,
        "linger.ms": 100,  # long enough that only full batches leave
    }
    send(bootstrap, name, topic.partitions, CONTENTS[topic.content](count), settings)


def send(bootstrap: str, name: str, partitions: int, messages: Iterable[Message], settings: dict[str, Any]) -> None:
    """Write messages with confluent-kafka, in turns to each partition. Raises: RuntimeError, if some are left."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 262_144,
            "enable.idempotence": True,  # otherwise five requests in flight may come out of order
            **settings,
        }
    )
    produce, poll = producer.produce, producer.poll
    numbers = itertools.cycle(range(partitions))
    for done, (value, key, headers) in enumerate(messages):
        more: dict[str, Any] = {"headers": headers} if headers else {}
        while True:
            try:
                produce(name, value, key, next(numbers), **more)
                break
            except BufferError:
                poll(0.1)
        if done % 1000 == 0:
            poll(0)
    if left := producer.flush(120):
        raise RuntimeError(f"{left} records of {name} not delivered")


def main() -> None:
    """Write records of one size, in a process of their own: the caller measures its own memory.

    ``python topics.py SERVERS TOPIC PARTITIONS COUNT SIZE CODEC``; a twentieth of each record is random.
    """
    bootstrap, name, partitions, count, size, codec = sys.argv[1:]
    pool = [(random.randbytes(int(size) // 20 + 1) * 20)[: int(size)] for _ in range(1000)]
    messages = ((value, None, None) for value in itertools.islice(itertools.cycle(pool), int(count)))
    settings = {"linger.ms": 50, "batch.size": 1_000_000, "compression.type": codec}
    send(bootstrap, name, int(partitions), messages, settings)
    print("{}")


if __name__ == "__main__":
    main()
