"""Minimum-cost flow, against exhaustive search, and without room."""

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.assignors.flow import FAR, Flow
from thinconsumer.assignors.plans import bits

MEMBERS = 3


@st.composite
def problems(draw):
    """Draw pools of up to three units, with near and far members that own some of them, and bounds of loads."""
    pools = []
    for _ in range(draw(st.integers(1, 3))):
        near = draw(st.integers(0, 7))
        far = draw(st.integers(0, 7)) & ~near
        supply = draw(st.integers(1, 3)) if near | far else 0
        owned: dict[int, int] = {}
        for member in bits(near | far):
            owned[member] = draw(st.integers(0, supply - sum(owned.values())))
        pools.append((supply, near, far, {member: count for member, count in owned.items() if count}))
    return pools, draw(st.integers(1, 4))


def cost_of(pools, units):
    total = 0
    for member, has in enumerate(units):
        for pool, count in has.items():
            _, _, far, owned = pools[pool]
            total += count * (FAR if far >> member & 1 else 0) - min(count, owned.get(member, 0))
    return total


def ways(supply, members):
    """Yield all ways to distribute ``supply`` units."""
    for combination in itertools.combinations_with_replacement(members, supply):
        yield {member: combination.count(member) for member in set(combination)}


def cheapest(pools, most):
    """Return the minimum cost by exhaustive search; None if there is no solution."""
    best = None
    for choice in itertools.product(*(ways(supply, list(bits(near | far))) for supply, near, far, _ in pools)):
        units = [{} for _ in range(MEMBERS)]
        for pool, counts in enumerate(choice):
            for member, count in counts.items():
                units[member][pool] = count
        if all(sum(has.values()) <= most for has in units):
            cost = cost_of(pools, units)
            best = cost if best is None else min(best, cost)
    return best


def solve(pools, most, members=MEMBERS):
    """Solve as the sticky assignors do: owners keep what they can, the rest is filled in."""
    flow = Flow(
        [supply for supply, *_ in pools],
        [near for _, near, _, _ in pools],
        members,
        [far for _, _, far, _ in pools],
        [owned for *_, owned in pools],
    )
    for pool, (_, near, _, owned) in enumerate(pools):
        for member, count in owned.items():
            if near >> member & 1:
                flow.put(pool, member, count)
    flow.fill([most] * members)
    for member in range(members):
        load = flow.load(member)
        flow.member_excess[member], flow.room[member] = max(0, load - most), max(0, most - load)
    flow.route()
    return flow


@settings(deadline=None, max_examples=300)
@given(problems())
def test_the_cost_is_minimal(problem):
    pools, most = problem
    flow = solve(pools, most)
    best = cheapest(pools, most)
    if best is None:
        assert any(flow.pool_excess) or any(flow.member_excess)
        return
    assert not any(flow.pool_excess) and not any(flow.member_excess)
    assert cost_of(pools, flow.units) == best
    for pool, (supply, near, far, _) in enumerate(pools):
        assert sum(has.get(pool, 0) for has in flow.units) == supply
        assert all((near | far) >> member & 1 for member, has in enumerate(flow.units) if pool in has)


def cheaper_cycle(flow, pools, most):
    """Return whether moving units along a cycle would reduce the cost (Bellman-Ford); if not, it is minimal."""
    sink = "sink"
    arcs = []
    for pool, (_, near, far, owned) in enumerate(pools):
        for member in bits(near | far):
            has, had = flow.units[member].get(pool, 0), owned.get(member, 0)
            there = FAR if far >> member & 1 else 0
            arcs.append((("pool", pool), member, there - (has < had)))
            if has:
                arcs.append((member, ("pool", pool), (has <= had) - there))
    for member in range(len(flow.units)):
        load = flow.load(member)
        arcs += [(member, sink, 0)] * (load < most) + [(sink, member, 0)] * (load > 0)
    distance = dict.fromkeys([node for arc in arcs for node in arc[:2]], 0)
    for _ in range(len(distance) + 1):
        changed = False
        for here, there, cost in arcs:
            if distance[here] + cost < distance[there]:
                distance[there] = distance[here] + cost
                changed = True
        if not changed:
            return False
    return True


def room_in_reach(flow):
    """Return whether waiting units could still reach a member with room."""
    pools = {pool for pool, count in enumerate(flow.pool_excess) if count}
    members = {member for member, count in enumerate(flow.member_excess) if count}
    while True:
        reached = members.union(*(bits(flow.near[pool] | flow.far[pool]) for pool in pools))
        back = pools.union(*(flow.units[member] for member in reached))
        if (reached, back) == (members, pools):
            return any(flow.room[member] for member in members)
        members, pools = reached, back


@pytest.mark.parametrize("seed", range(60))
def test_no_cycle_of_moves_reduces_the_cost(seed):
    """Larger than exhaustive search can check: paths are long, and potentials differ."""
    rng = random.Random(seed)
    members = rng.randint(4, 12)
    pools = []
    for _ in range(rng.randint(3, 12)):
        readers = sum(1 << member for member in rng.sample(range(members), rng.randint(1, 4)))
        far = readers & rng.getrandbits(members) if seed % 2 else 0
        owned = Counter(rng.choices(list(bits(readers)), k=rng.randint(0, 9)))
        pools.append((owned.total() + rng.randint(1, 3), readers & ~far, far, dict(owned)))
    most = -(-sum(supply for supply, *_ in pools) // members) + rng.randint(0, 2)
    flow = solve(pools, most, members)
    assert not cheaper_cycle(flow, pools, most)
    assert not room_in_reach(flow)
    for pool, (supply, *_) in enumerate(pools):
        assert sum(has.get(pool, 0) for has in flow.units) + flow.pool_excess[pool] == supply


def test_a_long_path_moves_one_unit_of_every_member():
    """The only room is at the far end of the path."""
    length = 3000  # longer than Python's recursion limit
    flow = Flow(
        [2, *[1] * (length - 1)],
        [0b11 << member for member in range(length)],
        length + 1,
        owned=[{0: 2}, *({member: 1} for member in range(1, length))],
    )
    for member in range(length):
        flow.put(member, member, 2 if member == 0 else 1)
    flow.member_excess[0], flow.room[length] = 1, 1
    flow.route()
    assert [flow.load(member) for member in range(length + 1)] == [1] * (length + 1)
    assert flow.units[length] == {length - 1: 1}


@pytest.mark.parametrize("seed", range(200))
def test_filling_is_what_giving_each_partition_to_the_least_loaded_results_in(seed):
    rng = random.Random(seed)
    members, pools = rng.randint(1, 9), rng.randint(1, 9)
    near = [rng.getrandbits(members) for _ in range(pools)]
    most = [rng.randint(0, 9) for _ in range(members)]
    flow = Flow([rng.randint(0, 9) for _ in range(pools)], near, members)
    for _ in range(rng.randint(0, 5)):
        flow.move(rng.randrange(pools), rng.randrange(members), rng.randint(1, 4))
    units, excess = [dict(units) for units in flow.units], list(flow.pool_excess)
    for pool in sorted(range(pools), key=lambda pool: near[pool].bit_count()):
        while excess[pool]:
            loads = [(sum(units[m].values()), m) for m in range(members) if near[pool] >> m & 1]
            open_to = [(load, member) for load, member in loads if load < most[member]]
            if not open_to:
                break
            member = min(open_to)[1]
            units[member][pool] = units[member].get(pool, 0) + 1
            excess[pool] -= 1
    flow.fill(most)
    assert (flow.units, flow.pool_excess) == (units, excess)


def test_filling_goes_to_the_least_loaded_and_stops_at_most():
    flow = Flow([1, 5], [0b01, 0b11], 2)
    flow.fill([2, 3])
    assert [flow.load(0), flow.load(1)] == [2, 3]
    assert flow.pool_excess == [0, 1]
