"""The controller's changes: each is committed once, and only if it changes something."""

from typing import Any

import pytest

from thinconsumer_testing.broker.acl.bindings import AclBinding, AclFilter, acl_bindings
from thinconsumer_testing.broker.acl.control import AclControlManager
from thinconsumer_testing.broker.acl.index import AclIndex

READ, WRITE, DESCRIBE = acl_bindings("User:alice", ["READ", "WRITE", "DESCRIBE"], topic="orders")


class Committed:
    """The controller's ACLs and those of a broker, to which the same changes are applied later."""

    def __init__(self) -> None:
        self.acls, self.broker = AclIndex(), AclIndex()
        self.changes: list[Any] = []
        self.manager = AclControlManager(self.acls, self._commit)

    def _commit(self, change: Any) -> None:
        change(self.acls)
        self.changes.append(change)

    def publish(self) -> list[AclBinding]:
        for change in self.changes:
            change(self.broker)
        return list(self.broker)


@pytest.fixture
def committed() -> Committed:
    return Committed()


def test_only_new_acls_are_committed(committed: Committed) -> None:
    committed.manager.create([READ, READ, WRITE])
    committed.manager.create([READ])
    committed.manager.create([])
    assert (list(committed.acls), len(committed.changes)) == ([READ, WRITE], 1)
    assert committed.publish() == [READ, WRITE]


def test_each_filter_gets_the_acls_that_it_selects(committed: Committed) -> None:
    committed.manager.create([READ, WRITE, DESCRIBE])
    filters = [AclFilter(*READ), AclFilter(resource_name="none"), AclFilter(*WRITE), AclFilter(principal="User:alice")]
    assert committed.manager.delete(filters) == [[READ], [], [WRITE], [READ, WRITE, DESCRIBE]]
    assert committed.manager.delete(filters) == [[], [], [], []]
    assert len(committed.changes) == 2
    assert committed.publish() == []
