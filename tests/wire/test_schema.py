"""Declarations of fields and structs."""

import copy
import pickle
from dataclasses import replace

import pytest

from thinconsumer.wire.alter_user_scram_credentials import ScramCredentialUpsertion
from thinconsumer.wire.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from thinconsumer.wire.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from thinconsumer.wire.schema import NEVER, NO_VERSIONS, ZERO_UUID, Primitive, parse_versions, wire_fields


@pytest.mark.parametrize(
    ("text", "versions"), [("0+", (0, NEVER)), ("3", (3, 3)), ("3-7", (3, 7)), ("none", NO_VERSIONS)]
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
