"""The ledger finds the faults in event logs that were written with them."""

from groups import Ledger
from groups.ledger import Event, Stint

DIARY = [
    Event(1.0, "a", "assigned", (0, 1)),
    Event(2.0, "a", "records", (0, 0, 1, 2)),
    Event(3.0, "a", "revoked", (0,)),
    Event(4.5, "b", "assigned", (0,)),
    Event(5.0, "b", "records", (0, 2, 3)),
    Event(5.5, "c", "assigned", (1,)),
    Event(6.0, "a", "records", (1, 0)),
    Event(7.0, "a", "killed"),
    Event(7.5, "a", "records", (1, 1)),
    Event(8.0, "c", "lost", (1,)),
]


def test_stints_end_with_what_took_them_away():
    assert Ledger.of([DIARY]).stints() == [
        Stint(0, "a", 1.0, 3.0, "revoked"),
        Stint(0, "b", 4.5),
        Stint(1, "a", 1.0, 7.0, "killed"),
        Stint(1, "c", 5.5, 8.0, "lost"),
    ]


def test_gaps_and_overlaps_are_found():
    ledger = Ledger.of([DIARY[5:], DIARY[:5]])  # in whatever order the diaries come
    ((gap, before, after),) = ledger.gaps()
    assert (gap, before.member, after.member) == (1.5, "a", "b")
    assert ledger.gaps(since=3.5) == []
    assert [(first.member, second.member) for first, second in ledger.overlaps()] == [("a", "c")]


def test_a_short_stint_within_a_long_one_hides_no_overlap():
    inner = [Event(2.0, "b", "assigned", (0,)), Event(3.0, "b", "revoked", (0,)), Event(4.0, "c", "assigned", (0,))]
    found = Ledger.of([[Event(1.0, "a", "assigned", (0,)), Event(9.0, "a", "left")], inner]).overlaps()
    assert [(first.member, second.member) for first, second in found] == [("a", "b"), ("a", "c")]


def test_lost_doubled_and_strange_records_are_found():
    ledger = Ledger.of([DIARY])
    assert ledger.lost({0: 5, 1: 2}) == [(0, 4)]
    (double,) = ledger.doubles()
    assert (double.partition, double.offset, double.first, double.second) == (0, 2, "a", "b")
    strange = [*DIARY, Event(8.5, "c", "records", (1, 2))]
    assert len(Ledger.of([strange]).strangers()) == 1


def test_silence_is_measured_up_to_both_ends():
    ledger = Ledger.of([DIARY])
    assert ledger.longest_silence(0, 1.0, 9.0) == 4.0
    assert ledger.longest_silence(0, 1.0, 5.5) == 3.0
