"""A pool of workers that divides task shards among its members by Kafka's group protocol, without a consumer.

    python examples/worker_pool.py [BOOTSTRAP_SERVERS]

Without BOOTSTRAP_SERVERS it starts an embedded broker. Two workers share twelve shards; a third joins, one leaves, one
crashes. Each time the group rebalances, and then every shard has exactly one worker again. The workers are cooperative:
during a rebalance they go on with their shards, and then give up only those that move to another worker.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import time
from collections import Counter

from thinconsumer import GroupMember
from thinconsumer.broker import BrokerProcess

#: Milliseconds without a heartbeat after which a worker counts as dead; real brokers require at least 6000 by default.
SESSION = 6000 if sys.argv[1:] else 1500
SHARDS = [f"shard-{n:02}" for n in range(12)]


class Worker(GroupMember):
    """A worker whose number of shards is proportional to its strength."""

    def __init__(self, name: str, strength: int, servers: str) -> None:
        self.name, self.strength, self.shards = name, strength, []
        super().__init__(
            "shards", ["cooperative"], cooperative_protocols=["cooperative"],
            group_id="pool", bootstrap_servers=servers,
            session_timeout_ms=SESSION, max_poll_interval_ms=SESSION, heartbeat_interval_ms=SESSION // 5,
        )  # fmt: skip

    def metadata(self, protocol: str) -> bytes:
        """Return what the leader has to know: the strength, and which shards this worker has since when."""
        return json.dumps([self.strength, self.held_generation, self.shards]).encode()

    def perform_assignment(self, leader_id, protocol, members):
        """Assign the shards in proportion to strength. The coordinator has only the group leader call this."""
        known = {member: json.loads(metadata) for member, metadata in sorted(members.items())}
        turns = itertools.cycle([member for member, (strength, _, _) in known.items() for _ in range(strength)])
        room = Counter(itertools.islice(turns, len(SHARDS)))  # how many shards each worker gets
        plan = {member: shards[: room[member]] for member, (_, _, shards) in known.items()}
        free = [shard for shard in SHARDS if not any(shard in shards for shards in plan.values())]
        for member, shards in plan.items():
            while len(shards) < room[member] and free:
                shards.append(free.pop())
        claims = {member: (generation, shards) for member, (_, generation, shards) in known.items()}
        return {member: ",".join(shards).encode() for member, shards in self.withhold(plan, claims).items()}

    def on_revoke(self, protocol: str, share: bytes) -> bool:
        """Stop working on the shards that move. The group then rebalances again, which assigns them."""
        before, self.shards = self.shards, [shard for shard in self.shards if shard in share.decode().split(",")]
        return len(self.shards) < len(before)

    def on_join_prepare(self) -> None:
        self.shards = []  # stop working on all: this worker closes, or was removed from the group

    def on_join_complete(self, protocol: str, share: bytes) -> None:
        self.shards = share.decode().split(",") if share else []  # start working on those that are new


def settle(what: str, *workers: Worker) -> None:
    """Poll until all workers share one generation and each shard has one worker; print the shares."""
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
        cid.close(leave_group=False)  # like a crash: the coordinator waits until its session times out
        settle("cid crashes", ann)
        ann.close()


if __name__ == "__main__":
    main()
