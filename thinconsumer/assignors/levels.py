"""Find the bounds of each member's load when units of pools are spread as evenly as the pools' members allow.

The most even distribution is optimal by every measure: it has the lowest maximum, the highest minimum, and the smallest
differences and sum of squares. It divides pools and members into blocks; within a block loads differ by one at most,
and no unit needs to leave its block (Frank and Murota's canonical partition of decreasingly minimal vectors). With the
blocks known, what remains is to choose the units of each member within fixed bounds.

Blocks are found by bisection: distribute the units with the average, rounded up, as every member's limit.

* If units are left over, the members that these units can reach, directly or by displacing other units, have loads
  above the average. They and their pools are one part, the rest is the other.
* If some member stays below the average, rounded down, all members whose units could move to it have loads below the
  average. They and their pools are one part, the rest is the other.
* Otherwise this part is a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .flow import Flow
from .masks import bits


class Block(NamedTuple):
    """Members (a mask) that each get ``least`` or ``most`` units, all from these pools."""

    pools: tuple[int, ...]
    members: int
    least: int
    most: int


def blocks(supplies: Sequence[int], members_of: Sequence[int]) -> list[Block]:
    """Divide pools and their members (as masks) into blocks. Every pool has units and members."""
    all_members = 0
    for mask in members_of:
        all_members |= mask
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
    """A part of the problem: the units of these pools, for these members only."""

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
    if any(flow.pool_excess):
        return _too_many(part, flow)

    for member in members:
        load = flow.load(member)
        flow.member_excess[member], flow.room[member] = max(0, load - least), max(0, least - load)
    flow.route()
    if any(flow.room):
        return _too_few(part, flow)
    return Block(part.pools, part.members, least, most)


def _too_many(part: _Part, flow: Flow) -> tuple[_Part, _Part]:
    """Units are left over: return the part that they can reach by displacing others, and the rest."""
    inside = {pool for pool, count in enumerate(flow.pool_excess) if count}
    holders = _holders(flow)
    members, grown = 0, True
    while grown:
        before = members
        for pool in inside:
            members |= flow.near[pool]
        inside |= {pool for pool, mask in enumerate(holders) if mask & members}
        grown = members != before
    return _divide(part, inside, members)


def _too_few(part: _Part, flow: Flow) -> tuple[_Part, _Part]:
    """Members are below the minimum: return the part whose units they could get, and the rest."""
    members = sum(1 << member for member, room in enumerate(flow.room) if room)
    holders = _holders(flow)
    inside: set[int] = set()
    grown = True
    while grown:
        before = members
        inside |= {pool for pool, mask in enumerate(flow.near) if mask & members}
        for pool in inside:
            members |= holders[pool]
        grown = members != before
    return _divide(part, inside, members)


def _holders(flow: Flow) -> list[int]:
    """Return, by pool, the mask of members that have units of it."""
    masks = [0] * len(flow.near)
    for member, units in enumerate(flow.units):
        for pool in units:
            masks[pool] |= 1 << member
    return masks


def _divide(part: _Part, inside: set[int], members: int) -> tuple[_Part, _Part]:
    return (
        _Part(tuple(pool for index, pool in enumerate(part.pools) if index in inside), members),
        _Part(tuple(pool for index, pool in enumerate(part.pools) if index not in inside), part.members & ~members),
    )
