"""Topics filled in every way there is: codecs of three client libraries, transactions, tombstones, odd headers.

Every function takes the bootstrap address and the topic, which exists; partitions are given as numbers.
"""

import random
import socket
from collections.abc import Sequence
from typing import Any

import crc32c
from confluent_kafka import Producer

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.wire.header import decode_response_header, encode_request
from thinconsumer.wire.produce import PartitionProduceData, ProduceRequest, TopicProduceData

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def producer(bootstrap: str, **options: Any) -> Producer:
    """Return a librdkafka producer; option names with underscores for dots."""
    settings = {name.replace("_", "."): setting for name, setting in options.items()}
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 2, "log_level": 0, **settings})


def message(n: int, chance: random.Random) -> dict[str, Any]:
    """Return one message's parts: nulls, empty strings, headers without values and keys that repeat among them."""
    headers = None
    if n % 3 == 0:
        headers = [("trace", b"%d" % n), ("trace", None), ("", b""), ("größe", chance.randbytes(n % 50))]
    return {
        "key": (None, b"", b"key-%d" % (n % 41), chance.randbytes(9))[n % 4],
        "value": (None, b"", b'{"number": %d}' % n, chance.randbytes(n % 700), b"lorem ipsum " * (n % 30))[n % 5],
        "headers": headers,
        "timestamp": 1_700_000_000_000 + n * 977 % 60_000,
    }


def write(
    target: Producer, topic: str, numbers: Sequence[int], partitions: int = 2, *, headers: bool = True
) -> dict[int, list[dict[str, Any]]]:
    """Produce messages with these numbers, wait until they are there, and return them by partition."""
    chance = random.Random(numbers[0])
    written: dict[int, list[dict[str, Any]]] = {partition: [] for partition in range(partitions)}
    for n in numbers:
        parts = message(n, chance)
        if not headers:
            del parts["headers"]
        target.produce(topic, partition=n % partitions, on_delivery=_delivered, **parts)
        written[n % partitions].append(parts)
        if n % 500 == 0:
            target.poll(0)
    assert target.flush(60) == 0
    return written


def _delivered(error: Any, message: Any) -> None:
    assert error is None, f"{message.topic()}-{message.partition()}: {error}"


def write_like_kafka_python(bootstrap: str, topic: str, codec: str, count: int) -> None:
    """Produce with kafka-python: snappy comes xerial-framed, lz4 and gzip from other encoders."""
    from kafka import KafkaProducer

    chance = random.Random(5)
    with KafkaProducer(
        bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec, linger_ms=20
    ) as other:
        for n in range(count):
            parts = message(n, chance)
            headers = [(name, data or b"") for name, data in parts["headers"] or ()]
            key = parts["key"] if parts["value"] else b"key"  # it refuses records with neither key nor value
            other.send(topic, parts["value"], key, headers, partition=n % 2, timestamp_ms=parts["timestamp"])
        other.flush(60)


def interleave_transactions(
    bootstrap: str,
    topic: str,
    rounds: int,
    producers: int = 4,
    seed: int = 3,
    keys: int = 0,
    codecs: Sequence[str] = CODECS,
) -> None:
    """Several producers with open transactions at once, committed and aborted in mixed order, plain records between.

    With ``keys`` every record has one of so many, for compacted topics, which take nothing without.
    """
    chance = random.Random(seed)
    plain = producer(bootstrap, acks="all", compression_type="lz4")
    many = [
        producer(bootstrap, transactional_id=f"{topic}-{i}", compression_type=codecs[i % len(codecs)])
        for i in range(producers)
    ]
    for each in many:
        each.init_transactions(30)
    open_ones: set[int] = set()
    n = 0
    for _ in range(rounds):
        i = chance.randrange(producers)
        if i not in open_ones:
            many[i].begin_transaction()
            open_ones.add(i)
        for _ in range(chance.randrange(0, 30)):
            parts = message(n, chance) | ({"key": b"%d" % (n % keys)} if keys else {})
            many[i].produce(topic, partition=chance.randrange(2), **parts)
            n += 1
        many[i].flush(30)
        if not keys and chance.random() < 0.2:
            write(plain, topic, range(n, n + 5))
            n += 5
        if chance.random() < 0.5:
            (many[i].commit_transaction if chance.random() < 0.5 else many[i].abort_transaction)(30)
            open_ones.discard(i)
    for i in sorted(open_ones):
        (many[i].commit_transaction if i % 2 else many[i].abort_transaction)(30)
    # The end of a transaction is acknowledged before its markers are in the logs, which would then grow while a test
    # compares them. The coordinator gives an id to a new producer only after they are written.
    for i in range(producers):
        producer(bootstrap, transactional_id=f"{topic}-{i}").init_transactions(30)


def produce_raw(bootstrap: str, topic: str, partition: int, batch: bytes) -> int:
    """Send one batch as it is, the way no client library would build it; return its base offset."""
    host, port = bootstrap.split(",")[0].rsplit(":", 1)
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=[data])
    body = encode_request(request, 7, 1, "raw")
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(len(body).to_bytes(4, "big") + body)
        file = connection.makefile("rb")
        frame = file.read(int.from_bytes(file.read(4), "big"))
    _, start = decode_response_header(frame, ProduceRequest, 7)
    answer = ProduceRequest.RESPONSE.decode(memoryview(frame)[start:], 7)
    found = answer.responses[0].partition_responses[0]
    assert found.error_code == 0, found
    return int(found.base_offset)


def write_odd_headers(bootstrap: str, topic: str) -> None:
    """Header keys that are no UTF-8, which brokers take: the bytes are swapped in behind the encoder's back."""
    chance = random.Random(8)
    lead, rest = b"\xc0\xc3\xe0\xe2\xed\xef\xf0\xf4\xf5\xffA", b"\x7f\x80\x8f\x90\x9f\xa0\xb0\xbf\xc2\xed"
    for _ in range(300):
        mark = bytes((chance.choice(lead), chance.choice(rest), chance.choice(rest), chance.choice(lead + rest)))
        plain = build_batch([NewRecord(b"v", b"k", (("KEYS", b"1"), ("KEYS", None)), 1_700_000_000_000)])
        broken = bytearray(plain.replace(b"KEYS", mark))
        broken[17:21] = crc32c.crc32c(broken[21:]).to_bytes(4, "big")
        produce_raw(bootstrap, topic, 0, bytes(broken))
