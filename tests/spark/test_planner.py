"""Planning: bounds, lost ranges, limits per trigger and tasks, by examples and by properties."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer import KafkaConfigurationError, TopicPartition
from thinconsumer.spark.options import AtCommitted, AtOffsets, AtTimes
from thinconsumer.spark.planner import (
    ClusterOffsets,
    DataLossError,
    Loss,
    OffsetRange,
    backlog_of,
    check_every_partition_named,
    limit_ends,
    offsets_of,
    offsets_within,
    plan_batch,
    plan_micro_batch,
    split_ranges,
    times_to_look_up,
)

A, B, C = (TopicPartition("t", number) for number in range(3))
EARLIEST, LATEST = AtOffsets(-2), AtOffsets(-1)
CLUSTER = ClusterOffsets(earliest={A: 10, B: 0}, latest={A: 100, B: 50}, found={A: 40, B: None})


def span(tp, start, until):
    return OffsetRange(tp, start, until)


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        (EARLIEST, {A: 10, B: 0}),
        (LATEST, {A: 100, B: 50}),
        (AtOffsets({A: 7, B: -2}), {A: 7, B: 0}),
        (AtOffsets({A: -1, B: 3}), {A: 100, B: 3}),
        (AtTimes(5), {A: 40, B: 50}),
        (AtTimes({A: 5, B: 6}), {A: 40, B: 50}),
        (AtCommitted("g"), {A: 40, B: 0}),
    ],
)
def test_bounds_are_resolved_to_offsets(bound, expected):
    assert offsets_of(bound, CLUSTER, no_match_is_latest=True) == expected


@pytest.mark.parametrize("bound", [AtTimes(5), AtTimes({A: 5, B: 6})])
def test_a_timestamp_after_all_records_is_an_error_unless_it_means_the_latest_offset(bound):
    with pytest.raises(
        KafkaConfigurationError, match="no record at or after the starting timestamp in t-1.*Strategy to latest"
    ):
        offsets_of(bound, CLUSTER, no_match_is_latest=False)


def test_only_timestamps_need_a_lookup():
    assert times_to_look_up(AtTimes(5), [A, B]) == {A: 5, B: 5}
    assert times_to_look_up(AtTimes({A: 5, B: 6}), [A]) == {A: 5}
    assert (
        times_to_look_up(EARLIEST, [A])
        == times_to_look_up(AtOffsets({A: 1}), [A])
        == times_to_look_up(AtCommitted("g"), [A])
        == {}
    )


@pytest.mark.parametrize("bound", [AtOffsets({A: 1, B: 1}), AtTimes({A: 1, B: 1})])
def test_bounds_must_name_exactly_the_partitions_that_are_read(bound):
    check_every_partition_named(bound, [B, A], "startingOffsets")
    for others, words in [([A], "but adds t-1"), ([A, B, C], "but leaves out t-2"), ([C], "leaves out t-2 and adds")]:
        with pytest.raises(KafkaConfigurationError) as error:
            check_every_partition_named(bound, others, "startingOffsets")
        assert words in str(error.value)
    check_every_partition_named(EARLIEST, [C], "startingOffsets")


@pytest.mark.parametrize(
    ("start", "until", "ranges", "losses"),
    [
        (10, 100, [(10, 100)], []),
        (20, 20, [], []),
        (30, 20, [], []),
        (4, 50, [(10, 50)], [(4, 10)]),
        (4, 8, [], [(4, 8)]),
        (90, 130, [(90, 100)], [(100, 130)]),
        (110, 130, [], [(100, 130)]),
        (110, 110, [], [(100, 110)]),
        (0, 130, [(10, 100)], [(0, 10), (100, 130)]),
        (100, 100, [], []),
    ],
)
def test_a_batch_loses_exactly_the_offsets_outside_the_log(start, until, ranges, losses):
    cluster = ClusterOffsets(earliest={A: 10}, latest={A: 100})
    plan = plan_batch({A: start}, {A: until}, cluster)
    assert [(r.start, r.until) for r in plan.ranges] == ranges
    assert [(x.start, x.until) for x in plan.losses] == losses


@pytest.mark.parametrize(
    ("start", "end", "earliest", "ranges", "losses"),
    [
        ({A: 5}, {A: 9}, {A: 0}, [span(A, 5, 9)], []),
        ({A: 5}, {A: 5}, {A: 0}, [], []),
        ({A: 5}, {A: 5}, {A: 5}, [], []),
        ({A: 5}, {A: 9, B: 3}, {A: 0, B: 0}, [span(A, 5, 9), span(B, 0, 3)], []),
        ({A: 5}, {A: 5, B: 3}, {B: 1}, [span(B, 1, 3)], [(B, 0, 1)]),
        ({A: 5}, {A: 5, B: 3}, {A: 0}, [], [(B, 0, 3)]),
        ({A: 5, B: 7}, {A: 6}, {A: 0}, [span(A, 5, 6)], [(B, 7, None)]),
        ({A: 5}, {A: 2}, {A: 0}, [], [(A, 2, 5)]),
        ({A: 5}, {A: 9}, {A: 7}, [span(A, 7, 9)], [(A, 5, 7)]),
        ({A: 5}, {A: 9}, {A: 30}, [], [(A, 5, 9)]),
        ({A: 5, B: 1}, {A: 9, B: 1}, {}, [], [(A, 5, 9)]),
    ],
)
def test_a_micro_batch_reads_new_partitions_from_their_start_and_finds_lost_offsets(
    start, end, earliest, ranges, losses
):
    plan = plan_micro_batch(start, end, earliest)
    assert plan.ranges == ranges
    assert [(loss.tp, loss.start, loss.until) for loss in plan.losses] == losses


def test_data_loss_names_every_range_and_survives_pickling():
    losses = [Loss(A, 5, 7, "deleted"), Loss(B, 7, None, "the partition was deleted")]
    error = pickle.loads(pickle.dumps(DataLossError(losses)))
    assert error.losses == tuple(losses)
    for words in ("t-0 [5, 7): deleted", "t-1 [7, ?): the partition was deleted", "failOnDataLoss"):
        assert words in str(error)
    assert "and 20 more" in str(DataLossError([Loss(A, 0, 1, "deleted")] * 120))


@pytest.mark.parametrize(
    ("start", "latest", "offsets_max", "expected"),
    [
        ({A: 0, B: 0}, {A: 90, B: 10}, 10, {A: 9, B: 1}),
        ({A: 0, B: 0}, {A: 1000, B: 1}, 10, {A: 9, B: 1}),
        ({A: 0, B: 0}, {A: 15, B: 15}, 5, {A: 2, B: 2}),
        ({A: 0, B: 0}, {A: 5, B: 5}, 100, {A: 5, B: 5}),
        ({A: 7}, {A: 7}, 3, {A: 7}),
        ({A: 9}, {A: 7}, 3, {A: 7}),
        ({A: 0}, {A: 100, B: 100}, 10, {A: 5, B: 5}),
        ({A: 0}, {A: 100, C: 40}, 10, {A: 10, C: 40}),
        ({A: 2**62}, {A: 2**63 - 1}, 2**63 - 1, {A: 2**63 - 1}),
    ],
)
def test_a_limit_is_divided_in_proportion_to_the_backlog(start, latest, offsets_max, expected):
    assert limit_ends(start, latest, {B: 0}, offsets_max) == expected


backlogs = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from("tu"), st.integers(0, 5)),
    st.tuples(st.integers(0, 10**9), st.integers(0, 10**6)),
    min_size=1,
)


@given(backlogs, st.integers(1, 10**7))
def test_limited_batches_read_from_every_partition_and_never_pass_the_end(backlog, offsets_max):
    start = {tp: first for tp, (first, _) in backlog.items()}
    latest = {tp: first + size for tp, (first, size) in backlog.items()}
    found = limit_ends(start, latest, {}, offsets_max)
    taken = {tp: found[tp] - start[tp] for tp in found}
    assert found.keys() == latest.keys()
    for tp, (_, size) in backlog.items():
        assert 0 <= taken[tp] <= size
        assert taken[tp] > 0 or size == 0
    assert sum(taken.values()) <= max(offsets_max, 1) + len(found)


def test_the_backlog_counts_new_partitions_from_their_beginning():
    assert backlog_of({A: 5, C: 9}, {A: 7, B: 30, C: 2}, {B: 10}) == 22


def test_bytes_are_converted_to_offsets_by_sampled_sizes():
    assert offsets_within(1000, [(10, 500), (10, 1500), (0, 7)]) == 10
    assert offsets_within(1, [(10, 500)]) == 1
    assert offsets_within(1000, [(5, 0)]) == 5000
    assert offsets_within(5000, []) == 5


@pytest.mark.parametrize(
    ("ranges", "how", "expected"),
    [
        ([(A, 0, 10)], {}, [(A, 0, 10)]),
        ([(A, 0, 10), (B, 5, 5)], {}, [(A, 0, 10)]),
        ([(A, 0, 10)], {"parts_min": 3}, [(A, 0, 3), (A, 3, 6), (A, 6, 10)]),
        ([(A, 0, 10), (B, 0, 10)], {"parts_min": 2}, [(A, 0, 10), (B, 0, 10)]),
        ([(A, 0, 1), (B, 0, 100)], {"parts_min": 3}, [(A, 0, 1), (B, 0, 50), (B, 50, 100)]),
        ([(A, 0, 2)], {"parts_min": 5}, [(A, 0, 1), (A, 1, 2)]),
        ([(A, 0, 10)], {"records_max": 4}, [(A, 0, 3), (A, 3, 6), (A, 6, 10)]),
        ([(A, 0, 10)], {"records_max": 10}, [(A, 0, 10)]),
        ([(A, 0, 8)], {"records_max": 4, "parts_min": 4}, [(A, 0, 2), (A, 2, 4), (A, 4, 6), (A, 6, 8)]),
        ([(A, 0, 8)], {"records_max": 1, "parts_min": 2}, [(A, n, n + 1) for n in range(8)]),
        ([], {"parts_min": 4}, []),
    ],
)
def test_ranges_are_split_as_the_official_connector_does(ranges, how, expected):
    assert split_ranges([span(*one) for one in ranges], **how) == [span(*one) for one in expected]


spans = st.dictionaries(
    st.builds(TopicPartition, st.just("t"), st.integers(0, 9)),
    st.tuples(st.integers(0, 1000), st.integers(0, 5000)),
    max_size=6,
)


@given(spans, st.none() | st.integers(1, 40), st.none() | st.integers(100, 3000))
def test_split_ranges_cover_the_whole_in_order_without_gaps(found, parts_min, records_max):
    ranges = [span(tp, first, first + size) for tp, (first, size) in found.items()]
    parts = split_ranges(ranges, parts_min=parts_min, records_max=records_max)
    for whole in ranges:
        mine = [part for part in parts if part.tp == whole.tp]
        assert [part.start for part in mine] == [whole.start, *[part.until for part in mine[:-1]]][: len(mine)]
        assert sum(part.size for part in mine) == whole.size
    assert all(part.size > 0 for part in parts)
    assert records_max is None or all(part.size <= records_max for part in parts)
