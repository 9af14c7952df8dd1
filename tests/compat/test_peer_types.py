"""Errors are of both packages where the peer is installed; without it, this package's classes have the peer's names."""

import copy
import pickle

import pytest

import thinconsumer
from thinconsumer import TopicPartition, errors
from thinconsumer.compat.peer_types import AIOKAFKA, KAFKA_PYTHON, PeerClasses

PEERS = {"aiokafka": AIOKAFKA, "kafka": KAFKA_PYTHON}
ABSENT = PeerClasses("a_package_that_is_not_installed", {"CorruptRecordError": "CorruptRecordException"})
TP = TopicPartition("orders", 0)


@pytest.fixture(params=PEERS)
def peer(request):
    pytest.importorskip(request.param)
    return PEERS[request.param]


def error_of(kind):
    """Return an error of this class, without calling its constructor."""
    error = kind.__new__(kind)
    error.args, error.next_offset, error.partition, error.partitions = ("words",), 1, None, ()
    if issubclass(kind, errors.BrokerResponseError):
        error.code = 29
    return error


@pytest.mark.parametrize("name", errors.__all__)
def test_each_error_is_the_peers_as_well(peer, name):
    kind = getattr(errors, name)
    error = peer.adopt(error_of(kind))
    assert isinstance(error, kind)
    assert isinstance(error, peer.error("KafkaError"))
    assert hash(error) == hash(error)
    assert "words" in str(error)
    assert repr(error) == f"{name}('words')"


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (errors.NoBrokersAvailable("no", {}), "KafkaConnectionError"),
        (errors.ConcurrentAccessError("busy"), "IllegalStateError"),
        (errors.PartitionNotOwnedError("not owned", reason="not_owned"), "CommitFailedError"),
        (errors.RebalanceInProgressError("wait", reason="rebalance_in_progress"), "CommitFailedError"),
        (errors.BrokerResponseError("odd", code=6, name="NOT_LEADER_OR_FOLLOWER"), "NotLeaderForPartitionError"),
        (errors.AuthorizationError("denied", code=31, name="CLUSTER"), "ClusterAuthorizationFailedError"),
        (errors.BrokerResponseError("new", code=999, name="?"), "UnknownError"),
    ],
)
def test_an_error_is_of_the_peers_class_for_its_bases_and_its_code(peer, error, name):
    assert isinstance(peer.adopt(error), peer.error(name))
    if isinstance(error, errors.BrokerResponseError):
        assert error.errno == error.code


def test_an_error_of_another_name_in_the_peer():
    pytest.importorskip("aiokafka")
    error = AIOKAFKA.adopt(errors.CorruptRecordError("torn", TP, 3, 4))
    assert isinstance(error, AIOKAFKA.error("CorruptRecordException"))
    assert "seek to 4" in str(error)


def test_an_adopted_error_is_the_same_object_with_its_attributes_and_traceback(peer):
    error = errors.NoOffsetForPartitionError([TP])
    with pytest.raises(peer.error("NoOffsetForPartitionError")) as caught, peer.adopting():
        raise error
    assert caught.value is error
    assert error.partitions == (TP,)
    assert error.__traceback__ is not None
    kind = type(error)
    assert type(peer.adopt(error)) is kind
    assert type(peer.adopt(errors.NoOffsetForPartitionError([TP]))) is kind


@pytest.mark.parametrize("copied", [lambda error: error, lambda error: pickle.loads(pickle.dumps(error))])
def test_partitions_to_seek_are_in_the_arguments_of_an_error(peer, copied):
    """As in the programs of aiokafka's pages: ``await consumer.seek_to_beginning(*error.args[0].keys())``."""
    error = errors.OffsetOutOfRangeError("outside", code=1, name="OFFSET_OUT_OF_RANGE", partition=TP)
    error.position = 100
    error = copied(peer.adopt(error))
    [found] = error.args[0]
    assert (error.args[0][found], found) == (100, TP)
    assert type(found) is peer.find("structs.TopicPartition", TopicPartition)
    assert "outside" in str(error)
    missing = copied(peer.adopt(errors.NoOffsetForPartitionError([TP])))
    assert (missing.args, missing.partitions) == ((TP,), (TP,))
    assert "no offset to start from for orders-0" in str(missing)


def test_errors_of_others_pass(peer):
    error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError), peer.adopting():
        raise error
    assert type(peer.adopt(error)) is ZeroDivisionError


@pytest.mark.parametrize("copied", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_copies_are_of_both_packages(peer, copied):
    error = copied(peer.adopt(errors.CommitFailedError("late", reason="timeout", partitions=[TP])))
    assert isinstance(error, peer.error("CommitFailedError"))
    assert isinstance(error, errors.CommitFailedError)
    assert (error.args, error.reason, error.partitions) == (("late",), "timeout", (TP,))


def test_without_the_peer_its_names_are_this_packages_classes():
    assert ABSENT.find("structs.TopicPartition", TopicPartition) is thinconsumer.TopicPartition
    assert ABSENT.error("CorruptRecordException") is errors.CorruptRecordError
    assert ABSENT.error("KafkaError") is errors.KafkaError
    assert issubclass(ABSENT.error("ProducerFenced"), errors.KafkaError)
    error = errors.KafkaTimeoutError("late")
    assert type(ABSENT.adopt(error)) is errors.KafkaTimeoutError
    assert ABSENT.adopt(errors.NoOffsetForPartitionError([TP])).args == (TP,)
    with pytest.raises(AttributeError):
        ABSENT.error("__path__")


def test_with_the_peer_its_own_classes_are_found(peer):
    found = peer.find("structs.TopicPartition", TopicPartition)
    assert found.__module__.split(".")[0] == peer.package
    assert hash(found("orders", 0)) == hash(TP)
    assert found("orders", 0) == TP
