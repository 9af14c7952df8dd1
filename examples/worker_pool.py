"""A pool of workers that share task shards: Kafka's group protocol for something that is not a consumer.

    python examples/worker_pool.py [BOOTSTRAP_SERVERS]

Without a cluster it starts one of its own. Two workers share twelve shards; a third joins, one leaves, one dies
without a word. Each time the group plans anew, and every shard has exactly one worker again.
"""

from __future__ import annotations

import contextlib
import sys
import time

from thinconsumer import GroupMember
from thinconsumer.broker import BrokerProcess

#: Milliseconds after which a silent worker counts as dead; brokers allow no less than six seconds unless told to.
SESSION = 6000 if sys.argv[1:] else 1500
SHARDS = [f"shard-{n:02}" for n in range(12)]


class Worker(GroupMember):
    """Works on its share of the shards; says how strong it is, and gets accordingly many."""

    def __init__(self, name: str, strength: int, servers: str) -> None:
        self.name, self.strength, self.shards = name, strength, []
        super().__init__(
            "shards", group_id="pool", bootstrap_servers=servers,
            session_timeout_ms=SESSION, max_poll_interval_ms=SESSION, heartbeat_interval_ms=SESSION // 5,
        )  # fmt: skip

    def metadata(self, protocol: str) -> bytes:
        return str(self.strength).encode()

    def perform_assignment(self, leader_id, protocol, members):
        """Only in the leader: deal the shards out, to the strong more often."""
        hands = [member for member, strength in sorted(members.items()) for _ in range(int(strength))]
        shares = {member: [] for member in members}
        for n, shard in enumerate(SHARDS):
            shares[hands[n % len(hands)]].append(shard)
        return {member: ",".join(shards).encode() for member, shards in shares.items()}

    def on_join_prepare(self) -> None:
        self.shards = []  # stop: the next plan may give them to others

    def on_join_complete(self, protocol: str, share: bytes) -> None:
        self.shards = share.decode().split(",") if share else []


def settle(what: str, *workers: Worker) -> None:
    """Poll until all are in, and every shard has one worker; show who has how many."""
    began = time.monotonic()

    def settled() -> bool:
        generations = {worker.group_metadata().generation_id for worker in workers if worker.is_stable}
        shards = sorted(shard for worker in workers for shard in worker.shards)
        return all(worker.shards for worker in workers) and len(generations) == 1 and shards == SHARDS

    while not settled():
        for worker in workers:
            worker.poll(10)
    shares = ", ".join(f"{worker.name} {len(worker.shards)}" for worker in workers)
    print(f"{what:<28} {shares:<24} after {time.monotonic() - began:.1f} s", flush=True)


def main() -> None:
    with contextlib.ExitStack() as stack:
        servers = sys.argv[1] if sys.argv[1:] else stack.enter_context(BrokerProcess()).bootstrap_servers
        ann, bob, cid = (Worker(name, strength, servers) for name, strength in (("ann", 1), ("bob", 1), ("cid", 2)))
        settle("two workers", ann, bob)
        settle("a strong third one", ann, bob, cid)
        bob.close()
        settle("bob leaves", ann, cid)
        cid.close(leave_group=False)  # as if it had died: the coordinator waits for its session to end
        settle("cid is not heard of again", ann)
        ann.close()


if __name__ == "__main__":
    main()
