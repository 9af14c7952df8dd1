"""How much each member can get, when units of pools are spread as evenly as the pools' members allow. Pure arithmetic.

The most even spread is even by every measure at once: it has the lowest maximum, the highest minimum, and the smallest
differences and squares. It falls into blocks, within each of which loads differ by one at most, and no unit ever needs
to leave its block (Frank and Murota's canonical partition of decreasingly minimal vectors). Finding the blocks first
leaves an easy question for later: who gets what within fixed bounds.

They are found by halving. Give nobody more than the average: where units are left over, the members that they can go
to, directly or by pushing others on, all have too many, and are a problem of their own. Or somebody stays below the
average, whatever is pushed: then all who could push to them have too few, and are a problem of their own. Or neither,
and this is a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .flow import Flow
from .masks import bits


class Block(NamedTuple):
    """Members, as a mask, that get ``least`` or ``most`` units each from these pools and no others."""

    pools: tuple[int, ...]
    members: int
    least: int
    most: int


def blocks(supplies: Sequence[int], members_of: Sequence[int]) -> list[Block]:
    """Divide pools and their members (as masks) into blocks. Every pool has units and members."""
    everybody = 0
    for mask in members_of:
        everybody |= mask
    found: list[Block] = []
    waiting = [_Part(tuple(range(len(supplies))), everybody)] if everybody else []
    while waiting:
        result = _block_or_parts(waiting.pop(), supplies, members_of)
        if isinstance(result, Block):
            found.append(result)
        else:
            waiting += result
    return found


class _Part(NamedTuple):
    """A problem of its own: these pools' units, for these members only."""

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
    """Units are left over: return all that they could displace, and the rest."""
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
    """Some are short: return all whose units they could get, and the rest."""
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
