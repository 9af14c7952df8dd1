"""CPU nanoseconds per record from a partition's bytes to rows with every value touched.

    python benchmarks/decode.py [--records 40000] [--rounds 5] [--only none] [--no-peers]

Ours, kafka-python's and aiokafka's decoders take the same batches in turn, several rounds, and the median is printed.
All three verify checksums. CPU time, so that a busy machine disturbs less; there is no I/O to wait for. The peers'
figures are for their record objects: their consumers make a ``ConsumerRecord`` of each afterwards, which ours is.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator

from topics import CONTENTS

from thinconsumer.records.batches import split
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.records.compression import Codec

BASE_TIME = 1_700_000_000_000


#: Contents of topics, and the most milliseconds between two records; with 0, 200 records have the same time.
CASES = {"constant": 0, "text": 0, "json": 10, "documents": 3, "headers": 3}


def records(content: str, count: int) -> Iterator[NewRecord]:
    """Yield the records of a benchmark's topic."""
    rng, now, apart = random.Random(1), BASE_TIME, CASES[content]
    for index, (value, key, headers) in enumerate(CONTENTS[content](count)):
        now = now + rng.randint(0, apart) if apart else BASE_TIME + index // 200
        yield NewRecord(value, key, headers or (), now)


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


def peer(package: str) -> Callable[[bytes], int]:
    """Return the decoder of kafka-python or of aiokafka, which have the same interface."""
    memory_records = importlib.import_module(f"{package}.record.memory_records").MemoryRecords

    def run(data: bytes) -> int:
        total = 0
        records = memory_records(data)
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
        runners |= {"kafka-python": peer("kafka"), "aiokafka": peer("aiokafka")}
    print(f"{'ns per record':34}" + "".join(f"{name:>14}" for name in runners) + "   (x kafka-python, x aiokafka)")
    for content in CASES:
        for size in (16 * 1024, 64 * 1024):
            for codec in (Codec.NONE, Codec.LZ4):
                name = f"{content}, {size // 1024} kB, {codec.name.lower()}"
                if options.only not in name:
                    continue
                data = batches(records(content, options.records), size, codec)
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
