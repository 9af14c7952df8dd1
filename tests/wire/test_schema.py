"""Declarations of fields and structs."""

import copy
import gc
import pickle
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pprint import pformat

import pytest

from thinconsumer.wire.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from thinconsumer.wire.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse
from thinconsumer.wire.schema import (
    NO_VERSIONS,
    OPEN_END,
    ZERO_UUID,
    Primitive,
    Struct,
    int32,
    parse_versions,
    wire_fields,
)
from thinconsumer_testing.broker.wire.requests import REQUESTS
from thinconsumer_testing.broker.wire.scram_credentials import ScramCredentialUpsertion


@pytest.mark.parametrize(
    ("text", "versions"), [("0+", (0, OPEN_END)), ("3", (3, 3)), ("3-7", (3, 7)), ("none", NO_VERSIONS)]
)
def test_versions_are_written_as_kafka_writes_them(text: str, versions: tuple[int, int]) -> None:
    assert parse_versions(text) == versions


def test_fields_carry_their_declaration() -> None:
    fields = dict(wire_fields(FetchRequest))
    assert next(iter(fields)) == "cluster_id"
    assert "unknown_tags" not in fields
    assert fields["cluster_id"].tag == 0
    assert fields["topics"].of is FetchTopic
    assert fields["topics"].array
    assert repr(fields["max_wait_ms"].of) == "int32"
    assert isinstance(fields["max_wait_ms"].of, Primitive)


def test_defaults_are_not_shared_between_messages() -> None:
    one, other = FetchRequest(), FetchRequest()
    one.topics.append(FetchTopic())
    one.replica_state.replica_id = 5
    one.unknown_tags[9] = b""
    assert other == FetchRequest()
    assert other.topics == []
    assert PartitionData().current_leader is not PartitionData().current_leader


def test_structs_take_keyword_arguments_only() -> None:
    """Positional arguments would silently be wrong when Kafka inserts a field."""
    with pytest.raises(TypeError):
        FetchPartition(1, 2)  # type: ignore[misc]
    with pytest.raises(TypeError):
        FetchPartition(partitoin=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        FetchPartition().partitoin = 1  # type: ignore[attr-defined]


def test_messages_compare_copy_and_pickle_by_value() -> None:
    message = FetchRequest(topics=[FetchTopic(topic="t")], unknown_tags={7: b"x"})
    assert copy.deepcopy(message) == message
    assert pickle.loads(pickle.dumps(message)) == message
    assert replace(message, max_wait_ms=1) != message
    assert replace(message, unknown_tags={}) != message
    assert FetchPartition().replica_directory_id == ZERO_UUID


def test_secrets_are_left_out_of_the_repr() -> None:
    for struct in (
        SaslAuthenticateRequest(auth_bytes=b"hush"),
        SaslAuthenticateResponse(auth_bytes=b"hush"),
        ScramCredentialUpsertion(name="alice", salted_password=b"hush"),
    ):
        assert "hush" not in repr(struct)
        assert struct == replace(struct) != type(struct)()


def all_structs(base: type[Struct] = Struct) -> Iterator[type[Struct]]:
    for struct in base.__subclasses__():
        yield struct
        yield from all_structs(struct)


def test_every_struct_can_be_made_and_is_a_dataclass() -> None:
    """The ``__init__`` of a struct is generated on first use: a wrong declaration would show up late."""
    assert REQUESTS
    structs = [struct for struct in all_structs() if struct.__module__.startswith("thinconsumer")]
    assert len(structs) > 150
    for struct in structs:
        made = struct()
        assert [field.name for field in fields(made)] == ["unknown_tags", *(name for name, _ in wire_fields(struct))]
        assert made == struct()
        assert not hasattr(made, "__dict__")
        assert repr(made).startswith(f"{struct.__qualname__}(")


def test_pprint_shows_the_repr_without_secrets() -> None:
    assert pformat(SaslAuthenticateRequest(auth_bytes=b"hush"), width=5) == "SaslAuthenticateRequest()"


def test_structs_do_not_equal_other_types_and_have_no_hash() -> None:
    assert FetchPartition() != FetchTopic()
    with pytest.raises(TypeError):
        hash(FetchPartition())


def test_a_derived_struct_has_the_fields_of_its_base_and_an_init_of_its_own() -> None:
    class Longer(FetchTopic):
        more: int = int32("0+")

    FetchTopic(topic="a")
    assert Longer(topic="a", more=2).more == 2
    assert [name for name, _ in wire_fields(Longer)] == [*(name for name, _ in wire_fields(FetchTopic)), "more"]


@pytest.fixture
def no_collections() -> Iterator[None]:
    """Collect no garbage: the end of another test's generator would be a traced call, and not the code's under test."""
    gc.disable()
    yield
    gc.enable()


def test_ctrl_c_at_any_call_while_the_first_instance_is_made_stays_ctrl_c(no_collections: None) -> None:
    """Before Python 3.12, an exception out of a field's ``__set_name__`` became a RuntimeError, which ended programs
    that catch KeyboardInterrupt."""
    outer = sys.gettrace()
    calls, finished = 0, False
    while not finished:
        calls += 1
        left = calls

        def interrupt(frame: object, event: str, argument: object) -> None:
            nonlocal left
            left -= 1
            if not left:
                raise KeyboardInterrupt

        class Fresh(Struct):
            number: int = int32("0+")

        sys.settrace(interrupt)
        try:
            made = Fresh(number=7)
            finished = True
        except KeyboardInterrupt:
            sys.settrace(outer)
            made = Fresh(number=7)  # the next attempt succeeds
        finally:
            sys.settrace(outer)
        assert made.number == 7
    assert calls > 2
