"""A client's driver gets input only in its steps, which advance the world; a dead process stays dead."""

import pytest

from thinconsumer.errors import IllegalStateError
from thinconsumer_testing.simulation import Violation, driver
from thinconsumer_testing.simulation.driver import Crashed


def test_unstepped_client_receives_nothing(town):
    ann = town.client()
    stream, connection = town.connect(ann)
    connection.send(b"news")
    town.pass_time(10)
    assert ann.driver.has_mail and not stream.received
    before = town.world.now()
    assert ann.driver.step(ann.orders, before + 5)
    assert bytes(stream.received) == b"news" and not ann.driver.has_mail
    assert town.world.now() == before  # available input is read without waiting


def test_waiting_step_ends_on_input_at_the_deadline_or_at_wake_at(town):
    ann = town.client()
    _, connection = town.connect(ann)
    began = town.world.now()
    town.world.call_later(2.0, lambda: connection.send(b"x"))
    assert ann.driver.step(ann.orders, began + 10)
    assert town.world.now() == pytest.approx(began + 2.0005)
    began = town.world.now()
    assert not ann.driver.step(ann.orders, began + 10)
    assert town.world.now() == began + 10
    ann.orders.agenda.alarm().set(began + 13)
    assert not ann.driver.step(ann.orders, began + 20)
    assert town.world.now() == began + 13


def test_step_past_its_deadline_sends_without_waiting(town):
    ann = town.client()
    stream, _ = town.connect(ann)
    before = town.world.now(), town.world.happened
    stream.outgoing.append(b"quick")
    assert not ann.driver.step(ann.orders, town.world.now())
    assert (town.world.now(), town.world.happened) == before
    town.pass_time(0.01)
    assert town.nodes[1].text == b"quick"


def test_wakeup_during_a_wait_ends_that_step_only(town):
    ann = town.client()
    began = town.world.now()
    town.world.call_later(1.0, ann.driver.wakeup)
    assert not ann.driver.step(ann.orders, began + 9)
    assert town.world.now() == began + 1.0
    assert not ann.driver.step(ann.orders, began)
    town.world.call_later(2.0, lambda: None)
    ann.driver.step(ann.orders, began + 9)
    assert town.world.now() == began + 9
    assert ann.driver.woken


@pytest.mark.parametrize("silently", [False, True])
def test_dead_process_sends_nothing_and_its_host_resets_connections(town, silently):
    ann = town.client()
    stream, connection = town.connect(ann)
    connection.send(b"unread")
    town.pass_time(0.1)
    ann.driver.die(silently=silently)
    assert ann.driver.streams == [] and town.network.connections == []
    town.pass_time(1)
    assert (connection in town.nodes[1].lost) is not silently
    connection.send(b"are you there?")
    town.pass_time(1)
    assert (connection in town.nodes[1].lost) is not silently  # no host, no reset
    assert not stream.received and stream.lost == []
    with pytest.raises(Crashed, match="ann"):
        ann.driver.step(ann.orders, town.world.now())


def test_death_within_a_call_is_not_caught_by_except_exception(town):
    ann = town.client()
    town.connect(ann)
    began = town.world.now()
    town.world.call_later(2, ann.driver.die)
    with pytest.raises(Crashed):
        ann.driver.step(ann.orders, began + 60)
    assert town.world.now() == began + 2 and town.world.depth == 0
    assert not issubclass(Crashed, Exception)


def test_closed_driver_closes_connections_and_rejects_steps(town):
    ann = town.client()
    _, connection = town.connect(ann)
    connection.send(b"unread")
    town.pass_time(1)
    ann.driver.close()
    assert not ann.driver.has_mail
    connection.send(b"more")
    town.pass_time(1)
    assert connection in town.nodes[1].lost and not ann.driver.has_mail
    with pytest.raises(IllegalStateError, match="closed"):
        ann.driver.step(ann.orders, town.world.now())


def test_endless_loop_of_a_client_is_a_violation(town, monkeypatch):
    """A loop that never advances time would hang the run without printing its seed."""
    monkeypatch.setattr(driver, "STEPS_MAX", 5)
    ann = town.client()
    town.connect(ann)
    now = town.world.now()
    for _ in range(4):
        ann.driver.step(ann.orders, now)
    town.pass_time(driver.LOOP_S + 0.1)
    for number in range(5):
        ann.driver.step(ann.orders, town.world.now() + number / 100)
    with pytest.raises(Violation, match="ann is in an endless loop"):
        ann.driver.step(ann.orders, now)
    assert town.world.violations
