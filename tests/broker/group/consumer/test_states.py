"""States under Kafka's names and numbers."""

import pytest

from thinconsumer_testing.broker.group.consumer.states import AssignmentState, ConsumerGroupState


@pytest.mark.parametrize(("value", "state"), [(0, "STABLE"), (1, "UNREVOKED_PARTITIONS"), (2, "UNRELEASED_PARTITIONS")])
def test_the_log_has_kafkas_numbers(value: int, state: str) -> None:
    assert AssignmentState.of(value).name == state


@pytest.mark.parametrize("value", [3, 126, -1, 127])
def test_a_number_of_a_later_version_is_unknown(value: int) -> None:
    assert AssignmentState.of(value) is AssignmentState.UNKNOWN


def test_groups_have_kafkas_names() -> None:
    assert [state.value for state in ConsumerGroupState] == ["Empty", "Assigning", "Reconciling", "Stable", "Dead"]
