"""Creation of assignors from ``partition_assignment_strategy``."""

import pytest

from thinconsumer.assignors import (
    CooperativeStickyAssignor,
    PartitionAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
)  # fmt: skip
from thinconsumer.assignors.registry import BUILT_IN, create, name_of


class Mine(PartitionAssignor):
    name = "mine"

    def assign(self, cluster, subscriptions):
        return {}


def test_javas_four_assignors_can_be_imported_from_the_package_and_are_found_by_name():
    classes = [CooperativeStickyAssignor, RangeAssignor, RoundRobinAssignor, StickyAssignor]
    assert [BUILT_IN[name] for name in sorted(BUILT_IN)] == classes
    assert sorted(BUILT_IN) == ["cooperative-sticky", "range", "roundrobin", "sticky"]


def test_classes_and_names_make_new_instances_and_instances_are_used_as_they_are():
    """Sticky assignors hold the state of one consumer."""
    own = Mine()
    first, second = create(["sticky", Mine, own]), create(["sticky", Mine, own])
    assert [assignor.name for assignor in first] == ["sticky", "mine", "mine"]
    assert first[0] is not second[0] and first[1] is not second[1]
    assert first[2] is second[2] is own


def test_names_of_users_assignors_and_errors_for_other_objects():
    assert name_of(Mine) == name_of(Mine()) == "mine"
    for entry, says in (
        (object(), "is no PartitionAssignor"),
        (PartitionAssignor, "lacks assign"),
        (type("Anon", (Mine,), {"name": ""}), "has no name"),
    ):
        with pytest.raises(ValueError, match=says):
            name_of(entry)
