"""The same topic over plaintext and over TLS, with three clients in turns: ``python benchmarks/tls.py``.

One real broker with a listener of each kind. Each reader runs in a fresh process; ratios are of medians.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from clusters import say, unique
from compare import Result, run, versions
from realkafka import Administration, new_cluster
from realkafka.certificates import Authority
from realkafka.security import Listener, Security
from topics import TOPICS, write

CLIENTS = ("thinconsumer", "kafka-python", "confluent-kafka tuned")
PLAINTEXT, TLS = "plaintext", "TLS"


def main() -> None:
    """Write the topics, run the rounds and print the table."""
    arguments = parse()
    found: dict[tuple[str, str, str], list[Result]] = {}
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        certificates = {"broker": authority.issue("broker", "localhost", "127.0.0.1")}
        security = Security([Listener("TLS", "SSL")], authority=authority, certificates=certificates)
        with new_cluster(heap="1g", quick=False, security=security) as cluster:
            places = {PLAINTEXT: cluster.bootstrap, TLS: cluster.address("TLS")}
            for topic in (topic for topic in TOPICS if topic.name in arguments.topics):
                name = unique(topic.name)
                cluster.create_topic(name, topic.partitions, 1, {"compression.type": "producer"})
                say(f"writing {arguments.records:,} records: {topic.what}")
                write(cluster.bootstrap, topic, name, arguments.records)
                for number in range(arguments.rounds):
                    for client in (*CLIENTS[number % 3 :], *CLIENTS[: number % 3]):
                        for kind, place in sorted(places.items(), reverse=number % 2 == 0):
                            result = read(client, kind, place, name, topic.partitions, arguments.records, authority)
                            found.setdefault((topic.name, client, kind), []).append(result)
                            say(f"{topic.name}, {client}, {kind}: {result['per_second'] / 1e3:,.0f} krec/s")
    print(report(found, arguments))


def parse() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--topics", type=lambda text: text.split(","), default=["plain", "json64"])
    return parser.parse_args()


def read(
    client: str, kind: str, place: str, topic: str, partitions: int, count: int, authority: Authority
) -> dict[str, float]:
    """Run one reader on one listener."""
    os.environ.pop("BENCHMARK_CAFILE", None)
    if kind == TLS:
        os.environ["BENCHMARK_CAFILE"] = str(authority.ca_file)
    return run(client, Administration(place), topic, partitions, count)


def report(found: dict[tuple[str, str, str], list[Result]], arguments: Any) -> str:
    """Return the table as Markdown."""
    lines = [
        f"{arguments.records:,} records, {arguments.rounds} rounds, {os.cpu_count()} cores, {platform.platform()},",
        f"{', '.join(map(' '.join, versions().items()))}. Medians (minimum to maximum).",
        "",
        "| topic | client | plaintext, krec/s | TLS, krec/s | TLS / plaintext | CPU s per M records, plaintext / TLS |",
        "|---|---|---|---|---|---|",
    ]
    for topic, client, kind in found:
        if kind != PLAINTEXT:
            continue
        plain, tls = found[topic, client, PLAINTEXT], found[topic, client, TLS]
        rates = [_rates(plain), _rates(tls)]
        ratio = median(_all(tls, "per_second")) / median(_all(plain, "per_second"))
        cpu = " / ".join(f"{median(_all(each, 'cpu_per_million')):.2f}" for each in (plain, tls))
        lines.append(f"| {topic} | {client} | {rates[0]} | {rates[1]} | {ratio:.2f} | {cpu} |")
    return "\n".join(lines)


def _all(results: list[Result], name: str) -> list[float]:
    return [result[name] for result in results]


def _rates(results: list[Result]) -> str:
    rates = [rate / 1e3 for rate in _all(results, "per_second")]
    return f"{median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"


if __name__ == "__main__":
    main()
