"""The interceptors of ``interceptor_classes``: which records and offsets they get, when, and what becomes of errors."""

from itertools import islice

import pytest

from thinconsumer import (
    Consumer,
    ConsumerInterceptor,
    IllegalStateError,
    KafkaConfigurationError,
    OffsetAndMetadata,
    TopicPartition,
)
from thinconsumer.config import ConsumerConfig
from thinconsumer.testing import Simulation

T0 = TopicPartition("t", 0)


class Noting(ConsumerInterceptor):
    """Notes its calls."""

    def __init__(self):
        self.consumed, self.committed, self.closed, self.configs = [], [], 0, None

    def configure(self, configs):
        self.configs = configs

    def on_consume(self, records):
        self.consumed.append([record.offset for found in records.values() for record in found])
        return records

    def on_commit(self, offsets):
        self.committed.append(offsets)

    def close(self):
        self.closed += 1


class Even:
    """Returns the records of even offsets only, twice each with ``times=2``."""

    def __init__(self, times=1):
        self.times = times

    def on_consume(self, records):
        return {tp: [each for each in found if each.offset % 2 == 0] * self.times for tp, found in records.items()}


class Failing:
    def __init__(self, returned=None):
        self.returned = returned

    def on_consume(self, records):
        if self.returned is None:
            raise ValueError("on purpose")
        return self.returned

    def on_commit(self, offsets):
        raise ValueError("on purpose")

    def close(self):
        raise ValueError("on purpose")


def values(found):
    return [record.offset for records in found.values() for record in records]


@pytest.fixture
def ten(reading):
    """Return a function that makes a consumer with interceptors of ten records, and an interceptor that notes."""

    def make(*others, **options):
        noting = Noting()
        _, consumer = reading(10, interceptor_classes=[*others, noting], **options)
        return consumer, noting

    return make


def test_a_poll_returns_what_the_interceptors_make_of_its_records_in_their_order(ten):
    consumer, noting = ten(Even())
    found = consumer.poll(1000)
    assert values(found) == [0, 2, 4, 6, 8] and found[T0][1:3] == [found[T0][1], found[T0][2]]
    assert noting.consumed == [[0, 2, 4, 6, 8]]
    assert consumer.position(T0) == 10
    assert consumer.metrics()["consumer-fetch-manager-metrics"]["records-consumed-total"] == 10
    assert consumer.poll(0) == {} and len(noting.consumed) == 1


def test_a_poll_of_which_nothing_is_left_returns_nothing_and_moves_on(ten):
    consumer, _ = ten(Even(times=0))
    assert consumer.poll(1000) == {}
    assert consumer.position(T0) == 10


@pytest.mark.parametrize("returned", [None, [], {"t": []}, {T0: 3}], ids=str)
def test_an_error_is_logged_and_the_next_interceptor_gets_what_the_failed_one_has_got(ten, caplog, returned):
    consumer, noting = ten(Failing(returned))
    assert values(consumer.poll(1000)) == list(range(10)) == noting.consumed[0]
    assert "on_consume of Failing failed" in caplog.text
    consumer.close()
    assert "close of Failing failed" in caplog.text and noting.closed == 1


def test_ctrl_c_in_an_interceptor_loses_no_record(reading):
    class Interrupted:
        calls = 0

        def on_consume(self, records):
            self.calls += 1
            if self.calls % 2:
                raise KeyboardInterrupt
            return records

    _, consumer = reading(3, interceptor_classes=[Interrupted])
    with pytest.raises(KeyboardInterrupt):
        consumer.poll(1000)
    assert values(consumer.poll(1000)) == [0, 1, 2]
    consumer.seek(T0, 0)
    for offset in range(3):
        with pytest.raises(KeyboardInterrupt):
            next(consumer)
        assert next(consumer).offset == offset


@pytest.mark.parametrize("way", ["iteration", "read_to_end"])
def test_an_iteration_passes_each_record_on_once_even_if_calls_end_its_poll_result(ten, way):
    consumer, noting = ten(Even())
    found = []
    for record in consumer if way == "iteration" else consumer.read_to_end():
        found.append(record.offset)
        consumer.position(T0)  # moves the positions past the records returned: others are polled again
        if record.offset == 8:
            break
    assert found == [0, 2, 4, 6, 8]
    assert noting.consumed == [[0], [], [2], [], [4], [], [6], [], [8]]
    assert consumer.position(T0) == 9


def test_an_iteration_ends_although_the_last_records_were_dropped(ten):
    consumer, _ = ten(Even())
    assert [record.offset for record in consumer.read_to_end()] == [0, 2, 4, 6, 8]
    consumer.seek(T0, 9)
    assert list(consumer.read_to_end()) == []
    assert consumer.position(T0) == 10


def test_an_iteration_returns_no_second_record_in_place_of_one(ten, caplog):
    consumer, _ = ten(Even(times=2))
    assert [record.offset for record in islice(consumer, 2)] == [0, 2]
    assert "on_consume has made 2 records of one" in caplog.text


def test_polls_of_columns_and_batches_call_none(ten):
    consumer, noting = ten()
    assert consumer.poll_raw(1000)
    consumer.seek(T0, 0)
    pytest.importorskip("numpy")
    assert consumer.poll_batches(1000) and noting.consumed == []


def test_an_interceptor_may_not_call_the_consumer(reading):
    raised = []

    class Calling:
        def on_consume(self, records):
            try:
                consumer.poll(0)
            except IllegalStateError as error:
                raised.append(str(error))
            return records

    _, consumer = reading(1, interceptor_classes=[Calling])
    consumer.poll(1000)
    assert "an interceptor" in raised[0]


def test_classes_are_instantiated_and_configured_without_secrets(ten):
    consumer, noting = ten(Noting, sasl_plain_username="u", client_id="me", **LOGIN)
    assert noting.configs["client_id"] == "me" and "c4nary" not in repr(noting.configs)
    consumer.close()
    consumer.close()
    assert noting.closed == 1


LOGIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_password": "c4nary"}


@pytest.mark.parametrize("value", ["x", [3], [Simulation], ["a.B"], {"a": 1}], ids=str)
def test_what_cannot_intercept_is_refused(value):
    with pytest.raises(KafkaConfigurationError, match="interceptor_classes"):
        ConsumerConfig.from_options(interceptor_classes=value)


def test_coroutines_and_javas_classes_are_refused_and_no_classes_are_none():
    class Late:
        async def on_commit(self, offsets): ...

    with pytest.raises(KafkaConfigurationError, match="async def"):
        ConsumerConfig.from_options(interceptor_classes=[Late])
    with pytest.raises(KafkaConfigurationError, match="Python classes"):
        ConsumerConfig.from_config({"interceptor.classes": "org.example.Audit"})
    for nothing in ("", " , ", None, []):
        assert ConsumerConfig.from_config({"interceptor.classes": nothing}).interceptor_classes == ()
    assert ConsumerConfig.from_config({"interceptor.classes": [Noting]}).interceptor_classes == (Noting,)


class Member:
    """A member of a group, with an interceptor that notes after one that fails."""

    def __init__(self, **options):
        sim = self.sim = Simulation(seed=1, brokers=1, topics={"t": 1})
        self.noting = Noting()
        options = {"group_id": "g", "auto_offset_reset": "earliest", "enable_auto_commit": False, **options}
        options["interceptor_classes"] = [Failing(), self.noting]
        self.consumer = Consumer("t", driver=sim.driver(), bootstrap_servers=sim.bootstrap_servers, **options)
        while not self.consumer.assignment():
            self.consumer.poll(100)
        sim.cluster.produce("t", [b"x"] * 3, 0)


def test_commits_are_passed_on_once_they_have_succeeded_and_before_their_callback():
    member = Member()
    consumer, noting, told = member.consumer, member.noting, []
    at = {T0: OffsetAndMetadata(1)}
    consumer.commit(at)
    assert noting.committed == [at]
    consumer.commit_async({T0: 2}, lambda offsets, error: told.append(len(noting.committed)))
    consumer.commit()
    assert told == [2] and noting.committed[1] == {T0: OffsetAndMetadata(2)} and len(noting.committed) == 3
    consumer.commit_async({TopicPartition("t", 7): 1}, lambda offsets, error: told.append(error))
    consumer.poll(1000)
    consumer.close()
    assert isinstance(told[1], Exception) and len(noting.committed) == 3


def test_automatic_commits_and_the_last_one_are_passed_on():
    member = Member(enable_auto_commit=True, auto_commit_interval_ms=1000)
    while not member.noting.committed:
        member.consumer.poll(1000)
    assert member.noting.committed[0][T0].offset <= 3
    member.consumer.seek(T0, 1)
    member.consumer.close()
    assert member.noting.committed[-1] == {T0: OffsetAndMetadata(1)} and member.noting.closed == 1
