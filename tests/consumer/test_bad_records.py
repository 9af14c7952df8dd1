"""Records that no deserializer can read: what each policy returns, raises, skips and commits, also after a crash."""

import pytest

from thinconsumer import (
    Consumer,
    DeserializationError,
    DeserializerNotReadyError,
    HealthState,
    KafkaConfigurationError,
    TopicPartition,
    dead_letter,
)
from thinconsumer.consumer import bad_records
from thinconsumer.consumer.bad_records import BadRecordWriter
from thinconsumer.testing import MemoryCluster
from thinconsumer_testing import NewRecord

T0 = TopicPartition("t", 0)
BAD = {0, 3, 4, 5, 11}
GOOD = [offset for offset in range(12) if offset not in BAD]


def number(data):
    """Return the offset in a value like ``b"0:7"``; fail for those in BAD."""
    offset = int(data.split(b":")[1])
    if offset in BAD:
        raise ValueError("bad")
    return offset


def fill(one, size=6):
    for _ in range(12 // size):
        one.append(size)


def values_by(how, consumer):
    if how == "poll":
        return [record.value for _ in range(20) for rows in consumer.poll(100).values() for record in rows]
    return [record.value for record in consumer]


@pytest.mark.parametrize("size", [1, 3, 6, 12])
@pytest.mark.parametrize("how", ["poll", "iterate"])
def test_skipped_records_are_left_out_and_the_position_passes_them(world, caplog, how, size):
    one = world()
    fill(one, size)
    consumer = one.consumer(value_deserializer=number, on_bad_record="skip", consumer_timeout_ms=500)
    assert values_by(how, consumer) == GOOD
    assert consumer.position(T0) == 12
    lines = [line for line in caplog.messages if "cannot be deserialized" in line]
    assert (
        1 <= len(lines) <= 12 // size
        and "first at offset 0, since its value deserializer raised ValueError" in lines[0]
    )


@pytest.mark.parametrize("how", ["poll", "iterate"])
def test_a_function_gets_each_bad_record_once_with_its_bytes(world, how):
    one = world()
    fill(one)
    seen = []
    consumer = one.consumer(value_deserializer=number, on_bad_record=seen.append, consumer_timeout_ms=500)
    assert values_by(how, consumer) == GOOD
    assert [(error.partition, error.offset, error.field, error.value) for error in seen] == [
        (T0, offset, "value", b"0:%d" % offset) for offset in sorted(BAD)
    ]


def test_a_function_that_raises_stops_at_the_record_and_is_called_again(world, read):
    one = world()
    fill(one)
    failures = [OSError("no broker for dead letters")]
    seen = []

    def send(error):
        if error.offset == 4 and failures:
            raise failures[0]
        seen.append(error.offset)

    consumer = one.consumer(value_deserializer=number, on_bad_record=send)
    assert [record.value for record in consumer.poll(1000)[T0]] == [1, 2]
    for _ in range(2):
        with pytest.raises(DeserializationError, match="offset 4") as caught:
            consumer.poll(1000)
        assert caught.value.__cause__ is failures[0]
        assert consumer.position(T0) <= 4
    failures.clear()
    assert read(consumer, 5) == {0: [6, 7, 8, 9, 10]}
    assert seen == sorted(BAD)


def test_a_function_may_raise_the_error_itself(world):
    one = world()
    fill(one)

    def refuse(error):
        raise error

    consumer = one.consumer(value_deserializer=number, on_bad_record=refuse)
    with pytest.raises(DeserializationError, match="offset 0") as caught:
        consumer.poll(1000)
    assert isinstance(caught.value.__cause__, ValueError)


class Stop(BaseException):
    """As Ctrl-C: no error."""


def test_an_interrupted_function_loses_and_repeats_no_record(world, read):
    one = world()
    fill(one)
    stops = [4, 4]
    seen = []

    def send(error):
        if stops and error.offset == stops[0]:
            stops.pop()
            raise Stop
        seen.append(error.offset)

    consumer = one.consumer(value_deserializer=number, on_bad_record=send)
    values = []
    for _ in range(30):
        try:
            values += [record.value for rows in consumer.poll(50).values() for record in rows]
        except Stop:
            pass
    assert (values, stops, set(seen)) == (GOOD, [], BAD)


def test_records_before_one_whose_function_always_interrupts_are_returned(world):
    one = world()
    fill(one)

    def stop_at_4(error):
        if error.offset == 4:
            raise Stop

    consumer = one.consumer(value_deserializer=number, on_bad_record=stop_at_4)
    with pytest.raises(Stop):
        consumer.poll(1000)
    assert [record.value for record in consumer.poll(1000)[T0]] == [1, 2]
    with pytest.raises(Stop):
        consumer.poll(1000)


def test_many_bad_records_take_linear_time(world):
    one = world()
    one.append(2000)
    calls = []

    def fail(data):
        calls.append(data)
        raise ValueError

    consumer = one.consumer(key_deserializer=len, value_deserializer=fail, on_bad_record="skip")
    assert consumer.poll(1000) == {}
    assert (consumer.position(T0), len(calls)) == (2000, 2000)


def test_batches_call_no_deserializer(world):
    one = world()
    fill(one)
    consumer = one.consumer(value_deserializer=number, on_bad_record="skip")
    assert len(consumer.poll_raw(1000)[T0]) == 2
    assert consumer.position(T0) == 12


@pytest.mark.parametrize("wrong", ["Skip it", None, 3, True])
def test_other_values_are_refused(wrong):
    with pytest.raises(KafkaConfigurationError, match="on_bad_record=.* must be 'raise', 'skip', dead_letter"):
        Consumer("t", on_bad_record=wrong)


@pytest.fixture
def writing(world, monkeypatch):
    """Return a world with topics "t" and "bad", and a consumer that writes dead letters to the latter."""
    one = world(topics={"t": 2, "bad": 1})
    monkeypatch.setattr(bad_records, "open_driver", lambda settings: one.cluster.driver())

    def consumer(*assigned, topic="bad", **options):
        return one.consumer(*assigned, value_deserializer=number, on_bad_record=dead_letter(topic), **options)

    return one, consumer


def letters(one, topic="bad"):
    with one.consumer((topic, 0)) as consumer:
        return list(consumer.read_to_end())


def test_dead_letters_have_the_bytes_and_the_reasons(writing):
    one, consumer = writing
    one.cluster.produce("t", [NewRecord(b"0:3", b"key", [("a", b"1")]), NewRecord(b"0:1", None, [])])
    reader = consumer(consumer_timeout_ms=2000)
    assert [record.value for record in reader] == [1]
    (letter,) = letters(one)
    assert (letter.key, letter.value, letter.headers[0]) == (b"key", b"0:3", ("a", b"1"))
    reasons = {name.removeprefix("__workers.errors."): value.decode() for name, value in letter.headers[1:]}
    assert int(reasons.pop("timestamp")) == letter.timestamp
    assert reasons == {
        "topic": "t", "partition": "0", "offset": "0", "group": "", "attempts": "1",
        "exception": "builtins.ValueError", "message": "bad",
    }  # fmt: skip


def test_dead_letters_are_written_once_each_and_in_order(writing, read):
    one, consumer = writing
    fill(one)
    reader = consumer(consumer_timeout_ms=2000)
    assert values_by("iterate", reader) == GOOD
    assert [letter.value for letter in letters(one)] == [b"0:%d" % offset for offset in sorted(BAD)]


def test_no_poll_waits_for_dead_letters_and_other_partitions_go_on(writing, caplog):
    one, consumer = writing
    one.append(4, 0)
    one.append(3, 1)
    reader = consumer(T0, ("t", 1), topic="missing")
    values = []
    for _ in range(100):
        began = one.clock.now()
        values += [record.value for rows in reader.poll(50).values() for record in rows]
        assert one.clock.now() - began <= 0.051
    assert values == []  # the first records of both are bad
    assert (reader.position(T0), reader.position(TopicPartition("t", 1))) == (0, 0)
    assert "its dead letter is not written" in caplog.text and "missing" in caplog.text
    assert "missing" in reader.health().reason and reader.health().state is not HealthState.OK
    one.cluster.create_topic("missing", 1)
    for _ in range(200):
        values += [record.value for rows in reader.poll(50).values() for record in rows]
    assert sorted(values) == [1, 1, 2, 2]
    assert sorted(letter.value for letter in letters(one, "missing")) == [b"0:0", b"0:3", b"1:0"]


def test_closing_ends_the_producer_and_asks_for_no_acknowledgement(writing):
    one, consumer = writing
    one.append(1)
    reader = consumer(topic="missing")
    reader.poll(200)
    reader.close()
    assert reader._reader.deserializing._policy._writer.producer._shell.closed


@pytest.mark.parametrize("topic", ["", None, 3])
def test_dead_letters_need_a_topic(topic):
    with pytest.raises(KafkaConfigurationError, match="name of a topic"):
        Consumer("t", on_bad_record=dead_letter(topic))


class Run:
    """A topic, and members that read it one after the other, each until it crashes.

    An event is a poll, the begin or the end of a record's processing, or of a call of ``on_bad_record``. After so many
    events the first member crashes: it ends without a word, and the next one begins at the committed offset.
    """

    def __init__(self, crash_at, policy, is_iteration):
        self.cluster = MemoryCluster(1, {"t": 1, "bad": 1})
        for first in (0, 4, 8):
            self.cluster.produce("t", [b"0:%d" % offset for offset in range(first, first + 4)])
        self.left, self.policy, self.is_iteration = crash_at, policy, is_iteration
        self.processed, self.handled, self.waited = [], [], set()

    def event(self):
        self.left -= 1
        if self.left == 0:
            raise Stop

    def handle(self, error):
        self.event()
        self.handled.append(error.offset)
        self.event()

    def process(self, record):
        self.event()
        self.processed.append(record.value)
        self.event()

    def number(self, data):
        """With the policy "waits", be ready at the second call for the first record, a bad one, and two others."""
        if self.policy == "waits" and data in (b"0:0", b"0:3", b"0:6", b"0:7") and data not in self.waited:
            self.waited.add(data)
            self.event()
            raise DeserializerNotReadyError("wait", 50)
        return number(data)

    def consumer(self, driver, **options):
        return Consumer(
            driver=driver, bootstrap_servers=self.cluster.bootstrap_servers, group_id="g", **options
        )  # fmt: skip

    def read(self):
        """Let one member read all, and leave the group; return whether it crashed."""
        driver = self.cluster.driver()
        consumer = self.consumer(
            driver, auto_offset_reset="earliest", auto_commit_interval_ms=0, max_poll_records=2,
            group_instance_id="one", value_deserializer=self.number, consumer_timeout_ms=1000,
            on_bad_record={"function": self.handle, "letters": dead_letter("bad")}.get(self.policy, "skip"),
        )  # fmt: skip
        consumer.subscribe(["t"])
        try:
            if self.is_iteration:
                for record in consumer:
                    self.process(record)
            else:
                for _ in range(15):
                    self.event()
                    for rows in consumer.poll(300).values():
                        for record in rows:
                            self.process(record)
        except Stop:
            driver.close()  # nothing is sent any more, as after ``kill -9``
            consumer._shell.closed = True
            return True
        consumer.close()
        return False

    def letters(self):
        """Return the offsets of the records that were written to the other topic."""
        with self.consumer(self.cluster.driver(), auto_offset_reset="earliest") as other:
            other.assign([TopicPartition("bad", 0)])
            return [int(record.value.split(b":")[1]) for record in other.read_to_end()]

    def committed(self):
        with self.consumer(self.cluster.driver()) as other:
            return other.committed(T0) or 0


def crash_while_writing(run, monkeypatch):
    """Let dead letters go to the run's cluster, and let the run crash when one begins, was sent, and was written."""
    call, sent = BadRecordWriter.__call__, set()

    def handle(self, error):
        is_first = error.offset not in sent
        sent.add(error.offset)
        if is_first:
            run.event()
        try:
            call(self, error)
        except DeserializerNotReadyError:
            if is_first:
                run.event()
            raise
        run.event()

    monkeypatch.setattr(bad_records, "open_driver", lambda settings: run.cluster.driver())
    monkeypatch.setattr(BadRecordWriter, "__call__", handle)


@pytest.mark.once
@pytest.mark.parametrize(
    ("policy", "is_iteration"),
    [("skip", False), ("skip", True), ("function", False), ("function", True), ("letters", False), ("waits", False)],
)
def test_after_a_crash_at_any_point_nothing_is_committed_that_was_not_processed_or_handled(
    policy, is_iteration, monkeypatch
):
    crash_at, crashed = 0, True
    while crashed:
        crash_at += 2 if policy in ("letters", "waits") else 1  # these have far more events
        run = Run(crash_at, policy, is_iteration)
        if policy == "letters":
            crash_while_writing(run, monkeypatch)
        crashed = run.read()
        handled = {"function": run.handled, "letters": run.letters()}.get(policy, BAD)
        done = {*run.processed, *handled}
        assert set(range(run.committed())) <= done
        if not crashed:
            break
        before = run.committed()
        first = len(run.processed)
        assert not run.read()
        # Nothing is lost, and what is repeated had not been committed.
        assert set(run.processed) == set(GOOD)
        again = set(run.processed[:first]) & set(run.processed[first:])
        assert all(offset >= before for offset in again)
        if policy in ("function", "letters"):
            assert set(run.handled if policy == "function" else run.letters()) == BAD
        assert run.committed() == 12
    assert crash_at > 2 * len(GOOD)
    assert run.processed == GOOD and run.committed() == 12
