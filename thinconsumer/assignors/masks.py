"""Sets of member numbers as bit masks, so that one operation handles a thousand members."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from .base import Subscription


def bits(mask: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set, the lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def next_bit(mask: int, start: int) -> int:
    """Return the first set bit from ``start`` on, wrapping around; ``mask`` must not be 0."""
    ahead = mask >> start
    if ahead:
        return start + (ahead & -ahead).bit_length() - 1
    return (mask & -mask).bit_length() - 1


def readers(topics: Iterable[str], members: Sequence[str], subscriptions: Mapping[str, Subscription]) -> dict[str, int]:
    """Return the mask of subscribed members of each topic; bit numbers are indexes in ``members``."""
    alike: dict[tuple[str, ...], int] = {}
    for number, member in enumerate(members):
        wanted = subscriptions[member].topics
        alike[wanted] = alike.get(wanted, 0) | 1 << number
    found = dict.fromkeys(topics, 0)
    for wanted, mask in alike.items():
        for topic in wanted:
            if topic in found:
                found[topic] |= mask
    return found
