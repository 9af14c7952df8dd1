"""wakeup(): from threads and signal handlers, before, during and after a wait, any number of times."""

import signal
import threading

import pytest

from thinconsumer.sockets import SelectorDriver
from thinconsumer.sockets.wake import Waker


def test_waking_before_the_first_step_ends_it_at_once(world):
    """Nothing is open yet when wakeup() is called, and it must not be lost."""
    world.driver.wakeup()
    started = world.driver.now()
    world.step(60)
    assert world.driver.now() - started < 30
    assert world.driver.woken
    world.driver.woken = False


def test_waking_between_steps_ends_the_next_one_and_only_that(world):
    world.step()
    world.driver.wakeup()
    before = world.selector.returns
    assert world.step(60) is False
    started = world.driver.now()
    world.step(0.05)
    assert world.driver.now() - started >= 0.049
    assert world.selector.returns == before + 2


def test_waking_from_another_thread(world):
    world.step()
    waiting = threading.Event()
    world.orders.agenda.next = lambda: waiting.set() or world.driver.now() + 60

    def wake():
        waiting.wait(10)
        world.driver.wakeup()

    thread = threading.Thread(target=wake)
    thread.start()
    started = world.driver.now()
    world.step(60)
    thread.join()
    assert world.driver.now() - started < 30
    assert world.driver.woken


def test_waking_from_a_signal_handler(world):
    old = signal.signal(signal.SIGALRM, lambda *_: world.driver.wakeup())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        started = world.driver.now()
        world.step(60)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert world.driver.now() - started < 30
    assert world.driver.woken


def test_waking_does_not_delay_io(world):
    stream, peer = world.connect()
    peer.sendall(b"x")
    world.await_bytes(stream, 1)
    world.driver.wakeup()
    world.step()
    assert stream.received == b"x"


def test_a_hundred_thousand_wakeups_neither_block_nor_add_up(world):
    """The pair's buffer is full long before; one step empties it."""
    world.step()
    for _ in range(100_000):
        world.driver.wakeup()
    world.step(60)
    before = world.selector.returns
    world.step(0.02)
    assert world.selector.returns == before + 1


def test_a_wakeup_between_steps_can_be_taken(world):
    world.driver.wakeup()
    assert world.driver.woken
    world.driver.woken = False


def test_waking_after_close_does_nothing(world):
    world.step()
    world.driver.close()
    world.driver.wakeup()


def test_waking_while_another_thread_opens_is_never_lost():
    """The flag goes up before the byte, and the pair is opened before the flag is looked at."""
    for _ in range(200):
        driver = SelectorDriver()
        barrier = threading.Barrier(2)

        def wake(driver=driver, barrier=barrier):
            barrier.wait()
            driver.wakeup()

        thread = threading.Thread(target=wake)
        thread.start()
        barrier.wait()
        driver.fileno()
        thread.join()
        assert driver._waker._reader.recv(10), "no byte: the step would have waited"
        assert driver.woken
        driver.close()


@pytest.mark.parametrize("opened", [False, True])
def test_draining_without_a_byte_does_nothing(opened):
    waker = Waker()
    if opened:
        waker.open()
    waker.drain()
    waker.close()
    waker.drain()
