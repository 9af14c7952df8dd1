"""Lookups that may block: nothing waits for them, failures pause them, and each result is kept."""

import pickle
import urllib.error

import pytest

from thinconsumer import DeserializerNotReadyError
from thinconsumer.deserializers.lookups import KEPT_MAX, RUNNING_MAX, Lookups, not_ready
from thinconsumer_testing.clock import VirtualClock


class Threads:
    """Runs what was started when it is told to."""

    def __init__(self):
        self.clock = VirtualClock()
        self.waiting = []

    def lookups(self, size=10):
        return Lookups(size, self.waiting.append, self.clock.now)

    def run(self):
        while self.waiting:
            self.waiting.pop(0)()


@pytest.fixture
def threads():
    return Threads()


def fails(error):
    def function():
        raise error

    return function


class StatusError(Exception):
    def __init__(self, http_status_code):
        super().__init__(f"HTTP {http_status_code}")
        self.http_status_code = http_status_code


def test_a_lookup_is_started_once_and_its_result_is_kept(threads):
    lookups = threads.lookups()
    for seconds in (0.01, 0.1, 5.0):
        with pytest.raises(DeserializerNotReadyError) as caught:
            lookups.get(7, lambda: "schema")
        assert 2 <= caught.value.retry_after_ms <= 100
        threads.clock.advance(seconds)
    assert len(threads.waiting) == 1
    threads.run()
    assert [lookups.get(7, fails(AssertionError())) for _ in range(3)] == ["schema"] * 3


def test_the_least_recently_used_result_is_dropped(threads):
    lookups = threads.lookups(size=2)
    for key in (1, 2, 1, 3):
        if key not in lookups._found:
            with pytest.raises(DeserializerNotReadyError):
                lookups.get(key, lambda key=key: key)
        threads.run()
        assert lookups.get(key, None) == key
    assert list(lookups._found) == [1, 3]


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError("no"), TimeoutError(), StatusError(500), StatusError(429), StatusError(401)]
)
def test_a_registry_that_cannot_be_asked_pauses_all_lookups_for_longer_each_time(threads, error):
    lookups = threads.lookups()
    pauses = []
    for _ in range(8):
        with pytest.raises(DeserializerNotReadyError):
            lookups.get(7, fails(error))
        threads.run()
        with pytest.raises(DeserializerNotReadyError, match="a schema cannot be looked up") as caught:
            lookups.get(7, fails(error))
        assert caught.value.__cause__ is error
        pauses.append(caught.value.retry_after_ms)
        with pytest.raises(DeserializerNotReadyError, match="a schema cannot be looked up"):
            lookups.get(8, fails(error))
        assert not threads.waiting
        threads.clock.advance(pauses[-1] / 1000)
    assert pauses == [100, 200, 400, 800, 1600, 3200, 5000, 5000]


def test_a_schema_that_does_not_exist_is_an_error_of_its_record_and_looked_up_again(threads):
    lookups = threads.lookups()
    for error in (StatusError(404), KeyError(7), ValueError("no schema")):
        with pytest.raises(DeserializerNotReadyError):
            lookups.get(7, fails(error))
        threads.run()
        with pytest.raises(type(error)) as caught:
            lookups.get(7, fails(error))
        assert caught.value is error


def test_few_lookups_run_at_once_and_results_that_nobody_asks_for_are_dropped(threads):
    lookups = threads.lookups()
    for key in range(3 * KEPT_MAX):
        with pytest.raises(DeserializerNotReadyError):
            lookups.get(key, lambda: 1)
        if key % 50 == 49:
            assert len(threads.waiting) == RUNNING_MAX
            threads.run()
    assert len(lookups._lookups) <= KEPT_MAX + RUNNING_MAX


def test_a_thread_that_cannot_be_started_is_tried_again():
    def start(run):
        raise RuntimeError("can't start new thread")

    lookups = Lookups(1, start)
    for _ in range(2):
        with pytest.raises(DeserializerNotReadyError, match="can't start new thread"):
            lookups.get(7, int)


def test_it_can_be_pickled(threads):
    assert pickle.loads(pickle.dumps(threads.lookups(size=3)))._size == 3


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (urllib.error.HTTPError("http://a", 404, "no", None, None), False),
        (urllib.error.HTTPError("http://a", 503, "no", None, None), True),
        (urllib.error.URLError("refused"), True),
        (StatusError(422), False),
        (StatusError(403), True),
        (DeserializerNotReadyError("wait"), True),
        (ValueError("no Avro"), False),
    ],
)
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_errors_of_libraries(error, waits, is_wrapped):
    if is_wrapped:
        outer = ValueError("outer")
        outer.__cause__ = error
        error = outer
    assert (not_ready(error) is not None) is waits
