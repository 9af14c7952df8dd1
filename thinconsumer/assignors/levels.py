"""Find how many partitions each member gets when they are spread as evenly as the subscriptions allow.

A *pool* is a set of partitions with the same subscribers, its members; of its partitions only the number matters. A
member's *load* is its number of partitions. The most even distribution has the lowest maximum, the highest minimum, and
the smallest differences and sum of squares. It divides pools and members into *blocks*: members of a block get
partitions of its pools only, and their loads differ by one at most (Frank and Murota's "canonical partition" of
decreasingly minimal vectors).

Blocks are found by dividing the problem until each part is a block. To test a part, its partitions are distributed with
the same limit for every member: the average load, rounded up.

* If partitions are left over, the members that could get them, directly or by displacing other partitions, will get at
  least the average, rounded up, and some of them more. These members and their pools become one part, the rest another.
* Otherwise, if a member cannot get the average, rounded down, this member and all members whose partitions could move
  to it will have loads below the average. These members and their pools become one part, the rest another.
* Otherwise the tested part is a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

from .flow import Flow
from .plans import bits


class Block(NamedTuple):
    """Pools and the mask of their members, which get ``least`` or ``most`` partitions each, all from these pools."""

    pools: tuple[int, ...]
    members: int
    least: int
    most: int


def blocks(supplies: Sequence[int], members_of: Sequence[int]) -> list[Block]:
    """Return the blocks. Pool ``i`` has ``supplies[i]`` partitions, and the members in the mask ``members_of[i]``."""
    all_members = reduce(or_, members_of, 0)
    found: list[Block] = []
    waiting = [_Part(tuple(range(len(supplies))), all_members)] if all_members else []
    while waiting:
        result = _block_or_parts(waiting.pop(), supplies, members_of)
        if isinstance(result, Block):
            found.append(result)
        else:
            waiting += result
    return found


class _Part(NamedTuple):
    """A part of the problem: spread the partitions of these pools over these members (a bit mask) only."""

    pools: tuple[int, ...]
    members: int


def _block_or_parts(part: _Part, supplies: Sequence[int], members_of: Sequence[int]) -> Block | tuple[_Part, _Part]:
    near = [members_of[pool] & part.members for pool in part.pools]
    flow = Flow([supplies[pool] for pool in part.pools], near, part.members.bit_length())
    total, count = sum(flow.pool_excess), part.members.bit_count()
    most = -(-total // count)
    least = max(0, most - 1)
    members = list(bits(part.members))

    flow.fill([most] * len(flow.room))
    for member in members:
        flow.room[member] = most - flow.load(member)
    flow.route()
    left_over = {pool for pool, count in enumerate(flow.pool_excess) if count}
    if left_over:
        return _divide(part, left_over, 0, near, _holders(flow))

    flow.raise_to((member, least) for member in members)
    below = sum(1 << member for member, room in enumerate(flow.room) if room)
    if below:
        return _divide(part, set(), below, _holders(flow), near)
    return Block(part.pools, part.members, least, most)


def _holders(flow: Flow) -> list[int]:
    """Return for each pool the bit mask of members that have partitions of it."""
    masks = [0] * len(flow.near)
    for member, units in enumerate(flow.units):
        for pool in units:
            masks[pool] |= 1 << member
    return masks


def _divide(
    part: _Part, pools: set[int], members: int, of_pool: Sequence[int], of_member: Sequence[int]
) -> tuple[_Part, _Part]:
    """Return the part that is reachable from these pools and members, and the rest.

    Masks by pool: ``of_pool[p]`` has the members reachable from pool p, ``of_member[p]`` the members that reach p.
    """
    inside, size = set(pools), (-1, -1)
    while size != (len(inside), members):
        size = len(inside), members
        for pool in inside:
            members |= of_pool[pool]
        inside |= {pool for pool, mask in enumerate(of_member) if mask & members}
    return (
        _Part(tuple(pool for index, pool in enumerate(part.pools) if index in inside), members),
        _Part(tuple(pool for index, pool in enumerate(part.pools) if index not in inside), part.members & ~members),
    )
