"""Deserializers are the user's code in the middle of a poll: what they may do to the consumer that calls them."""

import contextlib

import pytest

from thinconsumer import DeserializationError, IllegalStateError, TopicPartition

T0 = TopicPartition("t", 0)

CALLS = {
    "position": lambda consumer: consumer.position(T0),
    "seek": lambda consumer: consumer.seek(T0, 0),
    "poll": lambda consumer: consumer.poll(),
    "iterate": lambda consumer: next(consumer),
    "drive": lambda consumer: consumer.drive(),
    "close": lambda consumer: consumer.close(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_from_inside_a_deserializer_is_refused_and_nothing_comes_twice(world, read, name):
    one = world()
    one.append(4)
    one.append(4)
    refused = []

    def meddle(data):
        if data == b"0:2" and not refused:
            try:
                CALLS[name](consumer)
            except IllegalStateError as error:
                refused.append(error)
                raise
        return data

    consumer = one.consumer(value_deserializer=meddle)
    assert read(consumer, 8) == {0: [0, 1, 2, 3, 4, 5, 6, 7]}  # the poll after the failure tried again
    assert ["inside a deserializer" in str(error) for error in refused] == [True]


def test_who_meddles_each_time_is_told_so(world):
    one = world()
    one.append(1)
    consumer = one.consumer(value_deserializer=lambda data: consumer.position(T0))
    with pytest.raises(DeserializationError, match="inside a deserializer"):
        consumer.poll(1000)


def test_wakeup_from_inside_a_deserializer_is_for_the_next_call(world, read):
    one = world()
    one.append(2)

    def wake(data):
        consumer.wakeup()
        return data

    consumer = one.consumer(value_deserializer=wake)
    assert read(consumer, 2) == {0: [0, 1]}


class Stop(BaseException):
    """Neither an error nor a signal: what a scheduler of greenlets raises to end a task, for example."""


class Fragile:
    """A deserializer that raises at some data while it is broken; counts how often it was called for them."""

    def __init__(self, *bad, error=Stop):
        self.bad, self.error = bad, error
        self.is_broken = True
        self.calls = 0

    def __call__(self, data):
        if data in self.bad:
            self.calls += 1
            if self.is_broken:
                raise self.error
        return data


@pytest.fixture(params=["numpy", "rows"])
def fragile_reader(world, request):
    """Return a function that makes a consumer with a deserializer."""

    def make(w, *assigned, **options):
        consumer = w.consumer(*assigned, **options)
        if request.param == "rows":
            consumer._reader.managers.collector.chunk_decoder.has_numpy = False
        else:
            consumer._reader.managers.collector.chunk_decoder.together_min = 1
        return consumer

    return make


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, Stop])
def test_records_before_one_that_interrupts_the_poll_come_in_the_next_poll(world, fragile_reader, read, error):
    one = world()
    one.append(4)
    one.append(4)
    fragile = Fragile(b"0:5", error=error)
    consumer = fragile_reader(one, value_deserializer=fragile)
    with pytest.raises(error):
        consumer.poll(60_000)
    assert fragile.calls == 1
    assert read(consumer, 5, polls=1) == {0: [0, 1, 2, 3, 4]}
    assert fragile.calls == 1, "not called for the record that has interrupted the poll"
    for calls in (2, 3):
        with pytest.raises(error):
            consumer.poll(60_000)
        assert fragile.calls == calls
    fragile.is_broken = False
    assert read(consumer, 3) == {0: [5, 6, 7]}


def test_polls_of_few_records_return_all_before_one_that_interrupts_them(world, fragile_reader, read):
    one = world()
    one.append(6)
    fragile = Fragile(b"0:5")
    consumer = fragile_reader(one, value_deserializer=fragile)
    found = []
    for _ in range(6):
        try:
            found += read(consumer, 1, polls=1, max_records=2)[0]
        except Stop:
            found.append("stop")
    assert found == ["stop", 0, 1, 2, 3, 4, "stop", "stop"]


def test_records_of_other_partitions_come_although_the_polls_of_two_are_interrupted(world, fragile_reader, offsets):
    one = world(topics={"t": 3})
    for partition in range(3):
        one.append(3, partition)
    fragile = Fragile(b"0:0", b"2:1")
    consumer = fragile_reader(one, ("t", 0), ("t", 1), ("t", 2), value_deserializer=fragile)
    found = {0: [], 1: [], 2: []}

    def poll(times):
        stops = 0
        for _ in range(times):
            try:
                for number, some in offsets(consumer.poll(1000)).items():
                    found[number] += some
            except Stop:
                stops += 1
        return stops

    assert poll(8) >= 4
    assert found == {0: [], 1: [0, 1, 2], 2: [0]}
    fragile.is_broken = False
    assert poll(4) == 0
    assert found == {0: [0, 1, 2], 1: [0, 1, 2], 2: [0, 1, 2]}


def test_a_partition_whose_poll_was_interrupted_once_is_not_hidden_by_one_that_interrupts_each(world):
    one = world(topics={"t": 2})
    for number in (0, 1):
        one.append(5, partition=number)
    interrupted = []

    def stop(data):
        if data == b"1:0" or (data == b"0:0" and not interrupted):
            interrupted.append(data)
            raise Stop
        return data

    consumer = one.consumer(("t", 0), ("t", 1), value_deserializer=stop)
    found = {}
    for _ in range(6):
        with contextlib.suppress(Stop):
            found.update(consumer.poll(100))
    assert [record.offset for record in found[T0]] == [0, 1, 2, 3, 4]


def test_the_record_that_has_interrupted_a_poll_can_be_skipped_or_read_as_bytes(world, fragile_reader, read):
    pytest.importorskip("numpy")
    one = world()
    one.append(4)
    fragile = Fragile(b"0:2")
    consumer = fragile_reader(one, key_deserializer=bytes, value_deserializer=fragile)
    with pytest.raises(Stop):
        consumer.poll(60_000)
    assert read(consumer, 2, polls=1) == {0: [0, 1]}
    [columns] = consumer.poll_batches(60_000).values()
    assert columns.offsets.tolist() == [2, 3] and fragile.calls == 1
    consumer.seek(T0, 0)
    assert read(consumer, 2, polls=1) == {0: [0, 1]}
    with pytest.raises(Stop):
        consumer.poll(60_000)
    consumer.seek(T0, 3)
    assert read(consumer, 1, polls=1) == {0: [3]}
