"""A consumer's life: construction, closing, forgetting, threads, wake-ups. Each test is a promise to the user."""

import gc
import io
import threading
import warnings

import pytest

from thinconsumer import (
    ConcurrentAccessError,
    Consumer,
    IllegalArgumentError,
    IllegalStateError,
    KafkaConfigurationError,
    NoBrokersAvailable,
    TopicPartition,
    WakeupError,
)
from thinconsumer.testing import Network
from thinconsumer.wire.fetch import FetchRequest

T0 = TopicPartition("t", 0)

#: Every public call that is of no use after close, with arguments that would be fine before.
CALLS = {
    "assign": lambda c: c.assign([T0]),
    "assignment": lambda c: c.assignment(),
    "poll": lambda c: c.poll(),
    "next": lambda c: next(c),
    "read_to_end": lambda c: c.read_to_end(),
    "drive": lambda c: c.drive(),
    "fileno": lambda c: c.fileno(),
    "wake_at": lambda c: c.wake_at(),
    "seek": lambda c: c.seek(T0, 1),
    "seek_to_beginning": lambda c: c.seek_to_beginning(),
    "seek_to_end": lambda c: c.seek_to_end(),
    "position": lambda c: c.position(T0),
    "pause": lambda c: c.pause(T0),
    "resume": lambda c: c.resume(T0),
    "paused": lambda c: c.paused(),
    "topics": lambda c: c.topics(),
    "partitions_for_topic": lambda c: c.partitions_for_topic("t"),
    "beginning_offsets": lambda c: c.beginning_offsets([T0]),
    "end_offsets": lambda c: c.end_offsets([T0]),
    "offsets_for_times": lambda c: c.offsets_for_times({T0: 1}),
    "highwater": lambda c: c.highwater(T0),
    "lag": lambda c: c.lag(),
    "bootstrap_connected": lambda c: c.bootstrap_connected(),
}


# -- beginning


def test_constructor_does_no_io(world):
    """Constructing, assigning, moving and looking touch neither the network nor the driver."""
    w = world()
    driver = w.cluster.driver()
    consumer = Consumer(driver=driver, bootstrap_servers=w.cluster.bootstrap_servers)
    consumer.assign([T0])
    consumer.seek(T0, 3)
    consumer.pause(T0)
    repr(consumer)
    assert (consumer.lag(), consumer.highwater(T0), consumer.paused()) == ({T0: None}, None, {T0})
    assert not consumer.bootstrap_connected()
    assert (driver.steps, w.network.dials, w.network.lookups) == (0, [], [])
    consumer.close()
    assert (w.network.dials, w.network.lookups) == ([], [])


@pytest.mark.parametrize(
    "options", [{"group_id": ""}, {"fetch_min_byte": 1}, {"auto_offset_reset": "oldest"}, {"max_poll_records": 0}]
)
def test_wrong_options_are_refused_before_anything_exists(world, options):
    """The error names the option, and no descriptor is open."""
    w = world()
    with pytest.raises(KafkaConfigurationError, match=next(iter(options))):
        Consumer(driver=w.cluster.driver(), **options)
    gc.collect()


def test_repr_tells_where_things_stand(reading):
    """repr does no I/O and tells unconnected, connected and closed apart."""
    _, consumer = reading(client_id="billing")
    assert "billing 1 partitions" in repr(consumer)
    consumer.poll(100)
    assert "1 nodes known" in repr(consumer)
    consumer.close()
    assert "closed" in repr(consumer)


# -- end


@pytest.mark.parametrize("connected", [True, False])
@pytest.mark.parametrize("name", CALLS)
def test_calls_after_close_raise(reading, name, connected):
    """A closed consumer answers every call with IllegalStateError, whether it ever was connected or not."""
    w, consumer = reading()
    if connected:
        w.append(3)
        consumer.poll(100)
    consumer.close()
    with pytest.raises(IllegalStateError, match="closed"):
        CALLS[name](consumer)


def test_iteration_ends_with_close(reading):
    """Records that one poll of the iteration gathered are not handed out once the consumer is closed."""
    _, consumer = reading(3)
    assert next(consumer).offset == 0
    consumer.close()
    with pytest.raises(IllegalStateError, match="closed"):
        next(consumer)


def test_with_block_closes_after_an_error(reading):
    w, consumer = reading()

    def use():
        with consumer:
            consumer.poll(100)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        use()
    assert w.network.connections == []


def test_close_ends_the_fetch_sessions(reading):
    """A broker need not remember a session until others push it out of its cache."""
    w, consumer = reading(1, fetch_max_wait_ms=100)
    consumer.poll(1000)
    consumer.close()
    goodbye = w.fetches()[-1]
    assert (goodbye.session_epoch, goodbye.max_wait_ms, goodbye.topics) == (-1, 0, [])
    assert goodbye.session_id != 0


@pytest.mark.parametrize("timeout_ms", [None, 0, 50, 60_000])
@pytest.mark.parametrize("fault", ["pause", "kill", "black_hole", "none"])
def test_close_is_bounded(reading, fault, timeout_ms):
    """Closing never waits longer than it was told, nor than a moment, whatever the broker does."""
    w, consumer = reading(1)
    assert consumer.poll(1000)
    if fault != "none":
        getattr(w.network, fault)("kafka1", 9092)
    seconds, _ = w.elapsed(lambda: consumer.close(timeout_ms=timeout_ms))
    assert seconds <= min(0.2, 0.2 if timeout_ms is None else timeout_ms / 1000) + 1e-9
    assert w.network.connections == []


@pytest.mark.parametrize("timeout_ms", [1000, 0, 2.5, None])
def test_the_first_argument_of_close_is_not_the_timeout(reading, timeout_ms):
    """It is ``autocommit``, as in kafka-python: close(0) would have committed nothing, and waited for 30 s."""
    _, consumer = reading()
    with pytest.raises(IllegalArgumentError, match="autocommit is a bool"):
        consumer.close(timeout_ms)
    assert consumer.assignment()


def test_close_with_nonsense_for_a_timeout_leaves_the_consumer_open(reading):
    _, consumer = reading()
    consumer.poll(100)
    with pytest.raises(IllegalArgumentError):
        consumer.close(timeout_ms=-1)
    assert consumer.poll(100) == {}


def test_close_calls_the_deserializers_close(world):
    """A deserializer with a close of its own is closed, once."""

    class Deserializer:
        closed = 0

        def deserialize(self, topic, headers, data):
            return data

        def close(self):
            self.closed += 1

    deserializer = Deserializer()
    consumer = world().consumer(value_deserializer=deserializer)
    consumer.poll(100)
    consumer.close()
    consumer.close()
    assert deserializer.closed == 1


def test_forgotten_consumer_warns(reading):
    """A connected consumer without a reference warns, and its connections are closed."""
    w, consumer = reading()
    consumer.poll(100)
    w.consumers.clear()
    with pytest.warns(ResourceWarning, match="unclosed <Consumer"):
        del consumer
    gc.collect()
    assert w.network.connections == []


def test_consumer_that_never_connected_may_be_forgotten(reading):
    w, consumer = reading()
    consumer.seek(T0, 1)
    w.consumers.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del consumer
        gc.collect()


# -- threads


class Gate:
    """A deserializer that blocks inside poll until the test opens it."""

    def __init__(self):
        self.inside = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, data):
        self.inside.set()
        assert self.go_on.wait(30)
        return data


@pytest.mark.parametrize("name", CALLS)
def test_second_thread_is_refused_at_once(world, name):
    """While one thread is inside poll, any call of another one raises, and the first thread's poll is unharmed."""
    w = world()
    w.append(3)
    gate = Gate()
    consumer = w.consumer(value_deserializer=gate)
    found = []
    thread = threading.Thread(target=lambda: found.append(consumer.poll(1000)))
    thread.start()
    try:
        assert gate.inside.wait(30)
        with pytest.raises(ConcurrentAccessError, match="wakeup"):
            CALLS[name](consumer)
        with pytest.raises(ConcurrentAccessError):
            consumer.close()
    finally:
        gate.go_on.set()
        thread.join()
    assert [r.offset for r in found[0][T0]] == [0, 1, 2]
    assert consumer.position(T0) == 3


def test_second_thread_does_not_disturb_an_iteration(world):
    """A call that is refused has moved nothing: the record that the first thread is on is not handed out twice."""
    w = world()
    w.append(4)
    entered, go_on = threading.Event(), threading.Event()
    consumer = w.consumer()
    assert [next(consumer).offset, next(consumer).offset] == [0, 1]
    driver = consumer._shell.driver
    step = driver.step

    def slow_step(*args):
        entered.set()
        assert go_on.wait(30)
        return step(*args)

    driver.step = slow_step
    w.clock.advance(1)  # so that the next record is preceded by a look at the network
    found = []
    thread = threading.Thread(target=lambda: found.append(next(consumer).offset))
    thread.start()
    try:
        assert entered.wait(30)
        with pytest.raises(ConcurrentAccessError):
            consumer.poll()
    finally:
        go_on.set()
        thread.join()
        del driver.step
    found += [next(consumer).offset]
    assert found == [2, 3]
    assert consumer.position(T0) == 4


@pytest.mark.parametrize("name", sorted({"close", *CALLS} - {"read_to_end"}))
def test_a_signal_handler_in_the_middle_of_a_call_is_refused_and_the_call_goes_on(reading, name):
    """It would find a step half done and start over with new connections under the interrupted one's feet."""
    w, consumer = reading(3)
    refused = []

    def handler():
        try:
            {"close": lambda c: c.close(), **CALLS}[name](consumer)
        except ConcurrentAccessError as error:
            refused.append(error)

    w.network.call_at(w.clock.now() + 0.0001, handler)  # runs inside a step of the driver, as signal handlers do
    assert [r.offset for r in consumer.poll(1000)[T0]] == [0, 1, 2]
    assert len(refused) == 1 and "wakeup()" in str(refused[0])
    assert len(w.network.dials) == 2  # for questions and for fetches, and nothing was dialled anew
    consumer.assignment()


def test_a_resolver_cannot_use_the_consumer_that_asks_it():
    """The resolver runs inside a step too; the error names the resolver."""
    refused = []

    def resolver(host, port):
        with pytest.raises(IllegalStateError, match="inside a resolver") as caught:
            consumer.assignment()
        refused.append(caught.value)
        return []

    with Consumer(bootstrap_servers="nowhere.invalid:9092", resolver=resolver) as consumer:
        consumer.assign([T0])
        while not refused:
            consumer.poll(0)
        consumer.assignment()


def test_handing_over_to_another_thread_between_calls_is_fine(reading):
    """Each call may come from another thread than the one before, as long as they do not overlap."""
    _, consumer = reading(6)
    found = []

    def read():
        found.extend(r.offset for r in consumer.poll(1000, max_records=2)[T0])

    for _ in range(3):
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
    assert found == [0, 1, 2, 3, 4, 5]


# -- wake-ups


@pytest.mark.parametrize("call", ["poll", "next", "position", "end_offsets", "topics"])
def test_wakeup_during_a_call_ends_it(reading, call):
    """From a signal handler or another thread, in the middle of waiting: WakeupError, and everything goes on after."""
    w, consumer = reading()
    w.network.black_hole("kafka1", 9092)
    w.network.call_at(w.clock.now() + 3, consumer.wakeup)
    calls = {**CALLS, "poll": lambda c: c.poll(60_000)}
    before = w.clock.now()
    with pytest.raises(WakeupError):
        calls[call](consumer)
    assert w.clock.now() - before == pytest.approx(3)
    w.network.resume("kafka1", 9092)
    w.append(2)
    assert [r.offset for r in consumer.poll(60_000)[T0]] == [0, 1]


# -- event loops


def test_fileno_is_unsupported_in_memory_and_says_so(world):
    with pytest.raises(io.UnsupportedOperation):
        world().consumer().fileno()


def test_wake_at_is_now_while_records_are_buffered(reading):
    w, consumer = reading(3)
    consumer.poll(1000, max_records=1)
    assert consumer.wake_at() == w.clock.now()
    consumer.poll(0)
    assert consumer.wake_at() > w.clock.now()
    assert len(w.requests(FetchRequest)) >= 1


@pytest.mark.parametrize("chunk", [None, 7])
def test_loop_that_polls_only_when_told_to_makes_full_progress(world, chunk):
    """poll(0) at wake_at() or when there is I/O, as an event loop does it: everything is read, without a busy loop."""
    w = world(network=Network(chunk=chunk), topics={"t": 2})
    consumer = w.consumer(("t", 0), ("t", 1))
    found, calls, end = [], 0, w.clock.now() + 60
    for second in range(1, 31):
        w.network.call_at(w.clock.now() + second, lambda second=second: w.append(10, second % 2))
    while w.clock.now() < end:
        moment = min(consumer.wake_at(), w.network.next_event_at() or end, end)
        w.clock.advance_to(moment)
        for records in consumer.poll(0).values():
            found += [(r.partition, r.offset) for r in records]
        calls += 1
    assert sorted(found) == [(p, o) for p in (0, 1) for o in range(150)]
    assert calls < 3000  # idle fetches twice a second, and what the byte-wise network adds


def test_who_polls_once_in_a_while_is_not_told_of_an_outage_while_its_connection_comes_up(reading):
    """Each poll(0) does one step of connecting: 40 s between two polls do not count as an outage of the brokers."""
    w, consumer = reading(1)
    for _ in range(20):
        if consumer.poll(0):
            return
        w.clock.advance(40.0)
    pytest.fail("no record after 20 polls")


def test_an_outage_is_told_on_time_by_a_poll_that_waits_longer(world):
    """Nothing wakes a poll while backoffs last, except what it has to say."""
    one = world()
    one.network.refuse("kafka1", 9092)
    consumer = one.consumer(bootstrap_timeout_ms=7_000, reconnect_backoff_ms=5_000, reconnect_backoff_max_ms=5_000)
    began = one.clock.now()
    with pytest.raises(NoBrokersAvailable):
        consumer.poll(60_000)
    assert one.clock.now() - began == pytest.approx(7, abs=0.01)
    spent = consumer._shell.driver.steps
    for _ in range(100):
        one.clock.advance_to(consumer.wake_at())
        consumer.drive()
    assert one.clock.now() - began > 20, "driving on must not spin, though it raises nothing"
    assert consumer._shell.driver.steps - spent <= 300
