"""Errors keep their message and attributes across pickling and copying, and derive from the matching built-ins."""

import copy
import inspect
import pickle

import pytest

from thinconsumer import errors
from thinconsumer.errors import (
    BrokerResponseError,
    CommitFailedError,
    CorruptRecordError,
    DeserializationError,
    DeserializerNotReadyError,
    IllegalArgumentError,
    IllegalStateError,
    InvalidAssignmentError,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    NoBrokersAvailable,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    PartitionNotOwnedError,
    RebalanceInProgressError,
    RecordError,
    RetriableDeserializationError,
    UnsupportedCodecError,
    WakeupError,
)
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import to_error

TP = TopicPartition("orders", 3)
BROKER = {"code": 29, "name": "X", "retriable": True, "api": "Fetch", "node_id": 7, "partition": TP}


def out_of_range() -> OffsetOutOfRangeError:
    """Return an error with its attributes set after construction, as offset resets do."""
    error = OffsetOutOfRangeError("outside", code=1, name="OFFSET_OUT_OF_RANGE", partition=TP)
    error.position, error.log_start, error.log_end = 5, 10, 20
    return error


CLASSES = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, KafkaError)]
#: One of every class.
SAMPLES: list[KafkaError] = [
    *[cls("m") for cls in CLASSES if not inspect.isfunction(cls.__init__)],
    KafkaConnectionError("m", host="h", port=9092, node_id=4, is_certificate_rejected=True),
    NoBrokersAvailable("m", {"h:9092": "refused"}),
    InvalidAssignmentError("gave t-0 twice", "mine"),
    NoOffsetForPartitionError([TP, TopicPartition("a", 0)]),
    LogTruncationError(TP, 100, 90),
    LogTruncationError(TP, 100, None),
    CommitFailedError("m", reason="unknown_member", partitions=[TP], seconds_since_poll=12.0),
    PartitionNotOwnedError("m", reason="not_owned", partitions=[TP]),
    RebalanceInProgressError("m", reason="rebalance_in_progress", partitions=[TP], retriable=True),
    RecordError("m", TP, 5, 6),
    CorruptRecordError("m", TP, 5, 16),
    UnsupportedCodecError("m", TP, 5, 16, codec="snappy", extra="thinconsumer[snappy]"),
    *[
        cls("m", TP, 5, 6, field="value", key=b"k", value=b"\xff", headers=[("h", None)], timestamp=12)
        for cls in (DeserializationError, RetriableDeserializationError)
    ],
    DeserializerNotReadyError("m", 30),
    out_of_range(),
    *[
        cls("m", **BROKER)
        for cls in CLASSES
        if issubclass(cls, BrokerResponseError) and cls is not OffsetOutOfRangeError
    ],
]


def test_every_class_of_the_tree_has_a_sample_and_is_exported():
    assert {type(sample) for sample in SAMPLES} == set(CLASSES)
    assert {cls.__name__ for cls in CLASSES} == set(errors.__all__)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_keeps_class_message_and_every_attribute(sample, protocol):
    """By default, an exception with more constructor arguments than the message cannot be unpickled."""
    twin = pickle.loads(pickle.dumps(sample, protocol))
    assert type(twin) is type(sample)
    assert str(twin) == str(sample)
    assert twin.args == sample.args
    assert vars(twin) == vars(sample)
    assert twin.retriable == sample.retriable


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_copies_keep_message_and_attributes(sample):
    twin = copy.deepcopy(sample)
    assert (type(twin), str(twin), vars(twin)) == (type(sample), str(sample), vars(sample))


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (KafkaTimeoutError("m"), TimeoutError),
        (KafkaConnectionError("m"), ConnectionError),
        (NoBrokersAvailable("m", {}), ConnectionError),
        (IllegalArgumentError("m"), ValueError),
        (KafkaConfigurationError("m"), ValueError),
    ],
)
def test_errors_derive_from_the_matching_builtin(error, builtin):
    assert isinstance(error, builtin) and isinstance(error, KafkaError)


def test_wakeup_error_is_neither_an_os_error_nor_a_timeout():
    """A retry loop that catches TimeoutError or OSError would otherwise swallow wakeup()."""
    assert not isinstance(WakeupError("m"), (OSError, InterruptedError))


def test_messages_name_partitions_offsets_and_the_remedy():
    assert "orders-3, zebra-0" in str(NoOffsetForPartitionError([TopicPartition("zebra", 0), TP]))
    truncated = str(LogTruncationError(TP, 100, 90))
    assert "orders-3" in truncated and "100" in truncated and "90" in truncated and "seek" in truncated
    assert "unknown offset" in str(LogTruncationError(TP, 100, None))


def test_retriable_of_a_broker_error_depends_on_its_code():
    assert to_error(6).retriable and not to_error(29).retriable
    assert KafkaTimeoutError("m").retriable and not IllegalStateError("m").retriable


def test_no_brokers_available_copies_its_causes():
    causes = {"h:1": "refused"}
    error = NoBrokersAvailable("m", causes)
    causes.clear()
    assert error.causes == {"h:1": "refused"}
