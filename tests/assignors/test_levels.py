"""How evenly units can be spread: against exhaustive search, and groups with an obvious solution."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.assignors.levels import Block, blocks
from thinconsumer.assignors.plans import bits

pools = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 15)), min_size=1, max_size=3)


def possible_loads(supplies, members_of):
    """Yield the loads of all members for every distribution."""
    choices = [
        itertools.combinations_with_replacement(bits(members), supply) for supply, members in zip(supplies, members_of)
    ]
    for choice in itertools.product(*choices):
        yield [sum(part.count(member) for part in choice) for member in range(4)]


@settings(deadline=None, max_examples=200)
@given(pools)
def test_blocks_are_exactly_the_most_even_loads(drawn):
    supplies, members_of = zip(*drawn)
    best = min(sum(load * load for load in loads) for loads in possible_loads(supplies, members_of))
    even = [loads for loads in possible_loads(supplies, members_of) if sum(load * load for load in loads) == best]
    found = blocks(supplies, members_of)

    everybody = 0
    for mask in members_of:
        everybody |= mask
    assert sorted(pool for block in found for pool in block.pools) == list(range(len(supplies)))
    assert sum(block.members for block in found) == everybody, "each member is in one block"
    for block in found:
        for member in bits(block.members):
            assert all(block.least <= loads[member] <= block.most for loads in even)
        for pool in block.pools:
            assert members_of[pool] & block.members
        total = sum(supplies[pool] for pool in block.pools)
        count = block.members.bit_count()
        assert block.least * count <= total <= block.most * count
        assert block.most - block.least <= 1


def test_equal_pools_make_one_block():
    assert blocks([10], [0b111]) == [Block((0,), 0b111, 3, 4)]
    assert blocks([9], [0b111]) == [Block((0,), 0b111, 2, 3)]


def test_the_only_member_of_a_large_pool_gets_nothing_else():
    """Members of small pools get all of these."""
    found = {block.members: (block.pools, block.least, block.most) for block in blocks([9, 4], [0b001, 0b111])}
    assert found == {0b001: ((0,), 8, 9), 0b110: ((1,), 1, 2)}


def test_units_move_over_several_members():
    """0 and 1 share a pool, 1 and 2 another: two units each, although 0 and 2 share no pool."""
    assert blocks([4, 2], [0b011, 0b110]) == [Block((0, 1), 0b111, 1, 2)]


def test_no_units():
    assert blocks([], []) == []
