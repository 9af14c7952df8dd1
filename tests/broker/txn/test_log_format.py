"""Records of ``__transaction_state``: the bytes that Kafka 4.3.0's ``TransactionLog`` writes."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.errors import KafkaProtocolError
from thinconsumer.types import TopicPartition
from thinconsumer_testing.broker.txn.log_format import (
    TransactionLogValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from thinconsumer_testing.broker.txn.states import IDLE_STATES, TransactionState
from thinconsumer_testing.broker.txn.transaction import TransactionMetadata

KEY = bytes.fromhex("0000000962696c6c696e672d37")
PREPARE_COMMIT = bytes.fromhex(
    "0001000000000000000500030000ea600202076f72646572730200000002000000018bcfe569c80000018bcfe5687b"
    "03000800000000000000040108000000000000000602020002"
)
EMPTY = bytes.fromhex("0001000000000000000500000000ea6000000000018bcfe569c8ffffffffffffffff00")

PREPARE_COMMIT_METADATA = TransactionMetadata(
    producer_id=5,
    previous_producer_id=4,
    next_producer_id=6,
    producer_epoch=3,
    timeout_ms=60_000,
    state=TransactionState.PREPARE_COMMIT,
    partitions=frozenset({TopicPartition("orders", 2)}),
    started_ms=1_700_000_000_123,
    updated_ms=1_700_000_000_456,
    client_version=2,
)
EMPTY_METADATA = TransactionMetadata(producer_id=5, producer_epoch=0, timeout_ms=60_000, updated_ms=1_700_000_000_456)


def test_key_matches_kafka():
    assert encode_key("billing-7") == KEY
    assert decode_key(KEY) == "billing-7"


@pytest.mark.parametrize(("data", "metadata"), [(PREPARE_COMMIT, PREPARE_COMMIT_METADATA), (EMPTY, EMPTY_METADATA)])
def test_value_matches_kafka(data, metadata):
    assert encode_value(metadata) == data
    assert decode_value(memoryview(data)) == metadata


def test_version_0_values_can_be_read():
    """An upgraded cluster has them in its log."""
    old = TransactionLogValue(producer_id=5, producer_epoch=0, transaction_timeout_ms=60_000,
                              transaction_partitions=None, transaction_last_update_timestamp_ms=1_700_000_000_456,
                              transaction_start_timestamp_ms=-1)  # fmt: skip
    assert decode_value(b"\0\0" + old.encode(0)) == EMPTY_METADATA


def test_last_producer_epoch_is_not_logged():
    """As in Kafka: a producer that retries after its coordinator failed is fenced."""
    metadata = dataclasses.replace(EMPTY_METADATA, last_producer_epoch=7)
    assert decode_value(encode_value(metadata)) == EMPTY_METADATA


def test_records_of_later_versions_are_ignored():
    assert decode_key(b"\0\1" + KEY[2:]) is None
    assert decode_value(b"\0\2" + PREPARE_COMMIT[2:]) is None


@pytest.mark.parametrize("key", [None, b"", b"\0", b"\0\0", KEY[:-1], KEY + b"x"])
def test_invalid_key_raises_a_protocol_error(key):
    with pytest.raises(KafkaProtocolError):
        decode_key(key)


@pytest.mark.parametrize("end", range(len(PREPARE_COMMIT)))
def test_truncated_value_raises_a_protocol_error(end):
    with pytest.raises(KafkaProtocolError):
        decode_value(PREPARE_COMMIT[:end])


@pytest.mark.parametrize("status", [-1, 8])
def test_unknown_status_raises_a_protocol_error(status):
    broken = bytearray(EMPTY)
    broken[16] = status & 0xFF
    with pytest.raises(KafkaProtocolError, match=f"status {status}"):
        decode_value(broken)


_states = st.sampled_from([s for s in TransactionState if s not in IDLE_STATES - {TransactionState.EMPTY}])
_tps = st.builds(TopicPartition, st.text(min_size=1, max_size=5), st.integers(0, 99))


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**62), st.integers(0, 32767), _states, st.frozensets(_tps, max_size=5))
def test_values_round_trip(producer_id, epoch, state, partitions):
    if state is TransactionState.EMPTY:
        partitions = frozenset()
    metadata = TransactionMetadata(producer_id, epoch, 1, 2, state, partitions=partitions)
    assert decode_value(encode_value(metadata)) == metadata
