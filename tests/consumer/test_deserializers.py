"""Deserializers are the user's code in the middle of a poll: what they may do to the consumer that calls them."""

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
