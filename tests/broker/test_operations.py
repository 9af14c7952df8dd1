"""The operations of embedded brokers: each calls the cluster's method of the same name."""

import inspect
from typing import Any

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer_testing.broker.cluster import Cluster
from thinconsumer_testing.broker.control import BROKER_METHODS
from thinconsumer_testing.broker.operations import BrokerOperations

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "create_topic": ("t", 2, 1, {"cleanup.policy": "compact"}),
    "delete_topic": ("t",),
    "expand": ("t", 3),
    "shrink": ("t", 2),
    "kill_controller": (),
    "start_controller": (),
    "produce": ("t", [b"a", b"b"], 1),
    "set_password": ("alice", "secret"),
    "create_acls": ("User:alice", ["READ"]),
    "delete_acls": ("User:alice", ["READ"]),
    "set_client_metrics": ("m", ["*"]),
    "pushed_metrics": (),
    "delete_records": (("t", 0), 5),
    "compact": (("t", 0),),
    "kill": (2,),
    "start": (2,),
    "pause": (2,),
    "resume": (2,),
    "move_leader": (("t", 0), 2),
    "move_coordinator": ("billing", 2),
    "cut": (1, 2),
    "heal": (),
}


class Recorder(BrokerOperations):
    """Records the arguments of operations, by the cluster's parameter names."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def _perform(self, name: str, *args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(getattr(Cluster, name)).bind(None, *args, **kwargs)
        self.called = name, list(bound.arguments.values())[1:]
        return 7


def test_control_protocol_has_every_operation() -> None:
    assert set(ARGUMENTS) == BROKER_METHODS


@pytest.mark.parametrize("name", ARGUMENTS)
def test_operation_calls_the_method_of_the_cluster(name: str) -> None:
    recorder = Recorder()
    getattr(recorder, name)(*ARGUMENTS[name])
    called, arguments = recorder.called
    expected = [TopicPartition(*one) if isinstance(one, tuple) else one for one in ARGUMENTS[name]]
    assert (called, arguments[: len(expected)]) == (name, expected)


def test_keyword_arguments_are_passed_on_and_the_broker_closed() -> None:
    with Recorder() as recorder:
        recorder.kill(1, noticed_after_s=0.5)
        assert recorder.called == ("kill", [1, 0.5])
        assert recorder.produce("t", iter([b"a"]), codec="zstd") == 7
        assert recorder.called == ("produce", ["t", [b"a"], 0, {"codec": "zstd"}]), "control cannot encode iterators"
        assert not recorder.is_closed
    assert recorder.is_closed
