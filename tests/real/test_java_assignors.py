"""Our assignors against Java's, on random groups: the same plans where that is promised, never worse ones elsewhere.

Java's run in one process from the jars (``java/Assignors.java``). Range and RoundRobin have to be equal. Sticky ones
have to be valid, as even by any measure, and with equal subscriptions to read no less within racks and to move no more.
Where Java's sticky assignors raise, leave a partition out, assign it twice, or assign it to a member that is not
subscribed (after stale claims, or if a topic was created again with fewer partitions), ours only has to be valid.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import random
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from realkafka import jars

from thinconsumer.assignors.balance import balanced
from thinconsumer.assignors.base import Assignment, GroupMetadata, Subscription
from thinconsumer.assignors.plans import checked, member_racks, partition_racks, racks_matter
from thinconsumer.assignors.registry import BUILT_IN
from thinconsumer.assignors.sticky import Claim, Owned, StickyAssignor, find_owners, read_claim
from thinconsumer.types import ClusterView, Node, PartitionInfo, TopicPartition

SOURCE = Path(__file__).parent / "java" / "Assignors.java"
GROUPS = int(os.environ.get("THINCONSUMER_ASSIGNOR_GROUPS", "2000"))
SEED = int(os.environ.get("THINCONSUMER_ASSIGNOR_SEED", "1"))
#: The last three order differently by code unit and by code point.
TOPICS = ("orders", "a", "b.c", "\U0001f600", "\uffe0", "zz")
Plan = Mapping[str, list[TopicPartition]]


class Group(NamedTuple):
    cluster: ClusterView
    members: dict[str, Subscription]  #: As the cooperative assignor gets them.

    def for_sticky(self) -> dict[str, Subscription]:
        """Return the members as the eager one gets them: what they had is in bytes of its own."""
        return {member: with_user_data(subscription) for member, subscription in self.members.items()}


def with_user_data(subscription: Subscription) -> Subscription:
    if not subscription.owned_partitions and subscription.generation_id < 0:
        return subscription
    assignor = StickyAssignor()
    assignor.on_assignment(
        Assignment(subscription.owned_partitions), GroupMetadata("g", subscription.generation_id, "m")
    )
    return Subscription(
        subscription.topics,
        assignor.subscription_user_data(subscription.topics),
        subscription.owned_partitions,
        subscription.generation_id,
        subscription.rack_id,
        subscription.group_instance_id,
    )


def random_group(rng: random.Random) -> Group:
    """Draw members that come from some generation of the past, each in its own way."""
    racks = rng.choice([(None,), (None,), ("r1", "r2"), ("r1", "r2", "r3", None)])
    nodes = {i: Node(i, "localhost", 9092, rng.choice(racks)) for i in range(rng.randint(1, 5))}
    most = rng.choice([1, 4, 12])
    topics = {topic: rng.randint(1, most) for topic in rng.sample(TOPICS, rng.randint(1, len(TOPICS)))}
    replicas = rng.randint(1, min(3, len(nodes)))
    cluster = ClusterView(
        {
            topic: tuple(
                PartitionInfo(topic, number, -1, -1, tuple(rng.sample(sorted(nodes), replicas)), (), ())
                for number in range(count)
            )
            for topic, count in topics.items()
        },
        nodes,
    )
    names = [f"m{number}" for number in rng.sample(range(30), rng.randint(1, rng.choice([3, 8, 20])))]
    wanted = random_topics(rng, names, [*topics, "unknown"])
    members = {}
    for name, (owned, generation) in zip(names, random_claims(rng, names, topics, wanted)):
        rack = rng.choice(racks)
        instance = f"i{rng.randint(10, 99)}-{name}" if rng.random() < 0.3 else None
        members[name] = Subscription(tuple(wanted[name]), None, tuple(owned), generation, rack, instance)
    return Group(cluster, members)


def random_topics(rng: random.Random, names: list[str], topics: list[str]) -> dict[str, list[str]]:
    if rng.random() < 0.5:
        same = rng.sample(topics, rng.randint(1, len(topics)))
        return {name: rng.sample(same, len(same)) for name in names}
    least = rng.choice([0, 1, 1])
    return {name: rng.sample(topics, rng.randint(least, rng.choice([1, 2, len(topics)]))) for name in names}


def random_claims(
    rng: random.Random, names: list[str], topics: Mapping[str, int], wanted: Mapping[str, list[str]]
) -> list[tuple[list[TopicPartition], int]]:
    """Draw the partitions and generation that each member claims: none, an earlier plan's, or random ones."""
    kind = rng.choice(["none", "valid", "valid", "valid", "stale", "wild"])
    owned: dict[str, list[TopicPartition]] = {name: [] for name in names}
    generations = dict.fromkeys(names, -1 if kind == "none" else rng.choice([-1, 7, 7]))
    for topic, number in [(topic, number) for topic, count in topics.items() for number in range(count)]:
        tp = TopicPartition(topic, number)
        owners = [name for name in names if topic in wanted[name]] if kind != "wild" else names
        if kind != "none" and owners and rng.random() < 0.9:
            # The first members own more than the others: some have just joined.
            owned[owners[int(rng.random() ** 2 * len(owners))]].append(tp)
        if kind in ("stale", "wild") and owners and rng.random() < 0.2:
            owned[rng.choice(owners)].append(tp)
    if kind in ("stale", "wild"):
        generations = {name: rng.choice([-1, 5, 6, 7, 7]) for name in names}
    if kind == "wild":
        owned[rng.choice(names)].append(TopicPartition(rng.choice(["gone", *topics]), rng.choice([0, 90])))
    return [(list(dict.fromkeys(owned[name])), generations[name]) for name in names]


def as_json(group: Group) -> str:
    members = {
        name: {
            "topics": s.topics,
            "owned": s.owned_partitions,
            "generation": s.generation_id,
            "rack": s.rack_id,
            "instance": s.group_instance_id,
            "sticky": base64.b64encode(s.user_data).decode() if s.user_data is not None else None,
        }
        for name, s in group.for_sticky().items()
    }
    partitions = group.cluster.partitions
    topics = {topic: [info.replicas for info in infos] for topic, infos in partitions.items()}
    racks = {node_id: node.rack for node_id, node in group.cluster.nodes.items()}
    return json.dumps({"topics": topics, "racks": racks, "members": members})


def ask_java(groups: Iterable[Group]) -> list[dict[str, Any]]:
    command = [jars.java(), "-Dlog4j2.level=OFF", "-cp", jars.class_path(jars.CURRENT), str(SOURCE)]
    lines = "".join(as_json(group) + "\n" for group in groups)
    done = subprocess.run(command, input=lines.encode(), capture_output=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def java_plan(plan: dict[str, Any], group: Group) -> Plan | None:
    """Return the plan if it assigns each wanted partition once, to a member that subscribed to its topic."""
    if "error" in plan:
        return None
    shares = {member: [TopicPartition(*tp) for tp in share] for member, share in plan.items()}
    return shares if is_whole(shares, group) else None


def is_whole(shares: Plan, group: Group) -> bool:
    wanted = {topic for s in group.members.values() for topic in s.topics}
    whole = {TopicPartition(t, p) for t in wanted for p in range(group.cluster.partition_count(t))}
    given = [tp for share in shares.values() for tp in share]
    fits = all(tp.topic in group.members[member].topics for member, share in shares.items() for tp in share)
    return fits and len(given) == len(whole) and set(given) == whole


def unevenness(shares: Plan) -> list[tuple[str, int]]:
    """Return several measures, all of them lower when the plan is more even."""
    loads = [len(share) for share in shares.values()]
    return [
        ("of all pairs", sum(abs(a - b) for a, b in itertools.combinations(loads, 2))),
        ("of squares", sum(load * load for load in loads)),
        ("highest", max(loads)),
        ("lowest", -min(loads)),
    ]


def outside_rack(shares: Plan, group: Group) -> int:
    """Count partitions without a replica in their member's rack, if racks matter in this group."""
    topics = sorted({tp.topic for share in shares.values() for tp in share})
    of_members, of_partitions = member_racks(group.members), partition_racks(group.cluster, topics)
    if not racks_matter(of_members.values(), of_partitions.values()):
        return 0
    return sum(
        member in of_members and of_members[member] not in of_partitions[tp]
        for member, share in shares.items()
        for tp in share
    )


def moved(shares: Plan, owned: Owned) -> int:
    return sum(owned.owners.get(tp, member) != member for member, share in shares.items() for tp in share)


def claims_of(group: Group, assignor: str) -> Owned:
    if assignor == "sticky":
        return find_owners({m: read_claim(s.user_data) for m, s in group.for_sticky().items()}, group.cluster)
    return find_owners({m: Claim(s.owned_partitions, s.generation_id) for m, s in group.members.items()}, group.cluster)


def problems(group: Group, java: dict[str, Any], seen: Counter[str]) -> list[str]:
    found = []
    for name in ("range", "roundrobin"):
        plan = checked(name, BUILT_IN[name]().assign(group.cluster, group.members), group.cluster, group.members)
        ours = {member: sorted(share.partitions) for member, share in plan.items()}
        theirs = {member: sorted(TopicPartition(*tp) for tp in share) for member, share in java[name].items()}
        if ours != theirs:
            found.append(f"{name}: {ours}, Java {theirs}")
    for name in ("sticky", "cooperative-sticky"):
        found += [f"{name}: {problem}" for problem in sticky_problems(name, group, java, seen)]
    return found


def sticky_problems(name: str, group: Group, java: dict[str, Any], seen: Counter[str]) -> list[str]:
    is_cooperative = name == "cooperative-sticky"
    members = group.members if is_cooperative else group.for_sticky()
    owned = claims_of(group, name)
    plan = checked(
        name, BUILT_IN[name]().assign(group.cluster, members), group.cluster, members, cooperative=is_cooperative
    )
    ours = {member: list(share) for member, share in balanced(group.cluster, members, owned.owners).items()}
    if not is_whole(ours, group):
        return ["the plan is not whole"]
    found = []
    for member, share in plan.items():
        held_back = {tp for tp in ours[member] if is_cooperative and owned.held_by_others(tp, member)}
        if set(share.partitions) != set(ours[member]) - held_back:
            found.append(f"{member} gets {share.partitions}, not {ours[member]} without {held_back}")
    theirs = java_plan(java["target" if is_cooperative else name], group)
    if theirs is None:
        seen["not whole in Java"] += 1
        return found
    for (measure, our_value), (_, java_value) in zip(unevenness(ours), unevenness(theirs)):
        if our_value > java_value:
            found.append(f"{measure} {our_value}, Java {java_value}")
        elif our_value < java_value:
            seen[f"more even than Java: {measure}"] += 1
    if len({frozenset(s.topics) for s in members.values()}) == 1:
        our_cost = outside_rack(ours, group), moved(ours, owned)
        java_cost = outside_rack(theirs, group), moved(theirs, owned)
        seen["better racks than Java"] += our_cost[0] < java_cost[0]
        seen["fewer moves than Java"] += our_cost[1] < java_cost[1]
        seen["more moves than Java, for better racks"] += our_cost[1] > java_cost[1]
        if our_cost > java_cost:
            found.append(f"outside racks and moved: {our_cost}, Java {java_cost}")
    return found


@pytest.fixture(scope="module")
def java_is_here() -> None:
    try:
        jars.java(), jars.class_path(jars.CURRENT)
    except jars.NoJars as error:
        if os.environ.get("THINCONSUMER_REQUIRE_KAFKA") == "1":
            pytest.fail(f"Java's assignors are required: {error}")
        pytest.skip(str(error))


@pytest.mark.usefixtures("java_is_here")
def test_our_plans_are_javas_or_better():
    """2,000 random groups; more with THINCONSUMER_ASSIGNOR_GROUPS, others with THINCONSUMER_ASSIGNOR_SEED."""
    rng = random.Random(SEED)
    groups = [random_group(rng) for _ in range(GROUPS)]
    answers = ask_java(groups)
    assert len(answers) == len(groups)
    seen: Counter[str] = Counter()
    for number, (group, java) in enumerate(zip(groups, answers)):
        assert not (found := problems(group, java, seen)), f"group {number}: {found}\n{as_json(group)}\n{java}"
    print(dict(seen))
    assert seen["fewer moves than Java"], "no group in which the choice was difficult"
