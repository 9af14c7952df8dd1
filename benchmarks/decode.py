"""CPU nanoseconds per record from a partition's bytes to rows with every value touched.

    python benchmarks/decode.py [--records 40000] [--rounds 5] [--only none] [--no-peers]

Ours, kafka-python's and aiokafka's decoders take the same batches in turn, several rounds, and the median is printed.
All three verify checksums. CPU time, so that a busy machine disturbs less; there is no I/O to wait for. The peers'
figures are for their record objects: their consumers make a ``ConsumerRecord`` of each afterwards, which ours is.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator

from thinconsumer.records import split
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.records.compression import Codec

BASE_TIME = 1_700_000_000_000


def constant(rng: random.Random, count: int) -> Iterator[NewRecord]:
    """100 bytes, no key, some 200 records a millisecond: what performance tools produce."""
    for index in range(count):
        yield NewRecord(rng.randbytes(100), timestamp=BASE_TIME + index // 200)


def varied(rng: random.Random, count: int) -> Iterator[NewRecord]:
    """50 to 150 bytes, no key."""
    for index in range(count):
        yield NewRecord(rng.randbytes(rng.randint(50, 150)), timestamp=BASE_TIME + index // 200)


def keyed(rng: random.Random, count: int) -> Iterator[NewRecord]:
    """Keys of 1 to 12 digits, values of 20 to 400 bytes, records some 5 ms apart."""
    now = BASE_TIME
    for _ in range(count):
        now += rng.randint(0, 10)
        yield NewRecord(rng.randbytes(rng.randint(20, 400)), str(10 ** rng.randint(1, 11)).encode(), (), now)


def documents(rng: random.Random, count: int) -> Iterator[NewRecord]:
    """JSON with 20-byte keys; every fifth has headers, every twentieth is a tombstone; up to 3 ms apart."""
    now = BASE_TIME
    for index in range(count):
        now += rng.randint(0, 3)
        key = f"customer-{rng.randrange(10**11):011d}".encode()
        headers = (("trace", rng.randbytes(16)), ("origin", b"web"), ("tenant", None)) if index % 5 == 0 else ()
        document = {
            "order": index,
            "customer": key.decode(),
            "amount": rng.randrange(10**6) / 100,
            "lines": [
                {"sku": rng.choice(("apple", "pear", "quince")), "n": rng.randrange(9)} for _ in range(rng.randrange(4))
            ],
        }
        yield NewRecord(None if index % 20 == 7 else json.dumps(document).encode(), key, headers, now)


def batches(records: Iterable[NewRecord], size: int, codec: int) -> bytes:
    """Batches of about ``size`` uncompressed bytes."""
    out, waiting, weight, offset = bytearray(), [], 0, 0
    for record in records:
        waiting.append(record)
        weight += 12 + len(record.value or b"") + len(record.key or b"") + 30 * len(record.headers)
        if weight >= size - 100:
            out += build_batch(waiting, base_offset=offset, codec=codec, leader_epoch=3)
            offset += len(waiting)
            waiting, weight = [], 0
    return bytes(out)


def ours(data: bytes) -> int:
    total = 0
    found, error = split(memoryview(data))
    assert error is None
    for batch in found:
        for record in batch.decode("topic", 0):
            if record.value is not None:
                total += 1
    return total


def walk(data: bytes) -> int:
    return len(split(memoryview(data))[0])


def kafka_python() -> Callable[[bytes], int]:
    from kafka.record.memory_records import MemoryRecords

    def run(data: bytes) -> int:
        total = 0
        for batch in MemoryRecords(data):
            assert batch.validate_crc()
            for record in batch:
                if record.value is not None:
                    total += 1
        return total

    return run


def aiokafka() -> Callable[[bytes], int]:
    from aiokafka.record.memory_records import MemoryRecords

    def run(data: bytes) -> int:
        total = 0
        records = MemoryRecords(data)
        while records.has_next():
            batch = records.next_batch()
            assert batch.validate_crc()
            for record in batch:
                if record.value is not None:
                    total += 1
        return total

    return run


def seconds(run: Callable[[bytes], int], data: bytes) -> float:
    gc.collect()
    began = time.process_time()
    run(data)
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="run only cases whose name contains this")
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    runners: dict[str, Callable[[bytes], int]] = {"walk": walk, "thinconsumer": ours}
    if not options.no_peers:
        runners |= {"kafka-python": kafka_python(), "aiokafka": aiokafka()}
    print(f"{'ns per record':34}" + "".join(f"{name:>14}" for name in runners) + "   (x kafka-python, x aiokafka)")
    for make in (constant, varied, keyed, documents):
        for size in (16 * 1024, 64 * 1024):
            for codec in (Codec.NONE, Codec.LZ4):
                name = f"{make.__name__}, {size // 1024} kB, {codec.name.lower()}"
                if options.only not in name:
                    continue
                data = batches(make(random.Random(1), options.records), size, codec)
                count = sum(batch.count for batch in split(memoryview(data))[0])
                taken: dict[str, list[float]] = {runner: [] for runner in runners}
                for _ in range(options.rounds):
                    for runner, run in runners.items():
                        taken[runner].append(seconds(run, data) / count * 1e9)
                medians = {runner: statistics.median(times) for runner, times in taken.items()}
                ratios = "".join(f"{medians[peer] / medians['thinconsumer']:8.1f}" for peer in list(runners)[2:])
                print(
                    f"{name:34}" + "".join(f"{taken_ns:14.0f}" for taken_ns in medians.values()) + "   " + ratios,
                    flush=True,
                )


if __name__ == "__main__":
    main()
