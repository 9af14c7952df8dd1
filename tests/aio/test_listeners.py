"""Listeners whose methods are coroutines run inside ``await poll``, ``unsubscribe`` and ``close``, and nowhere else."""

import anyio
import pytest

from thinconsumer import Consumer, PartitionKeyRebalanceListener, RebalanceListener, TopicPartition
from thinconsumer.errors import IllegalArgumentError

CLASSIC, CONSUMER = {}, {"group_protocol": "consumer"}
IN_BOTH_PROTOCOLS = pytest.mark.parametrize("protocol", [CLASSIC, CONSUMER], ids=["classic", "consumer"])


class Heard(RebalanceListener):
    """Awaits something in each method. It inherits ``on_partitions_lost``, which is no ``async def``."""

    def __init__(self, topic):
        self.tps = {TopicPartition(topic, 0), TopicPartition(topic, 1)}
        self.heard = []
        self.consumer = None

    async def on_partitions_assigned(self, assigned):
        self.heard.append("assigning")
        await anyio.sleep(0.03)
        self.heard.append(("assigned", assigned))

    async def on_partitions_revoked(self, revoked):
        self.heard.append("revoking")
        await anyio.sleep(0.03)
        self.heard.append(("revoked", revoked))


async def joined(one, listener, ms=1000):
    while one.assignment() != listener.tps or ("assigned", listener.tps) not in listener.heard:
        await one.poll(ms, max_records=1)


@IN_BOTH_PROTOCOLS
def test_each_runs_to_its_end_before_the_poll_goes_on(run, consumer, topic, group, protocol):
    listener = Heard(topic)

    async def main():
        async with consumer(group_id=group, **protocol) as one:
            one.subscribe([topic], listener=listener)
            await joined(one, listener)
            assert [said for said in listener.heard if said != ("assigned", set())][-2:] == [
                "assigning",
                ("assigned", listener.tps),
            ]
            del listener.heard[:]
            await one.unsubscribe()
            assert listener.heard == ["revoking", ("revoked", listener.tps)]
            one.subscribe([topic], listener=listener)
            await joined(one, listener)
            del listener.heard[:]
        assert listener.heard == ["revoking", ("revoked", listener.tps)]

    run(main)


@IN_BOTH_PROTOCOLS
def test_one_may_make_the_calls_of_its_consumer(run, consumer, topic, tp, group, protocol):
    class Listener(Heard):
        async def on_partitions_assigned(self, assigned):
            if tp in assigned:
                self.heard.append(await self.consumer.position(tp))
                self.consumer.seek(tp, 8)
            await super().on_partitions_assigned(assigned)

        async def on_partitions_revoked(self, revoked):
            await self.consumer.commit()
            self.heard.append(await self.consumer.committed(tp))

    listener = Listener(topic)

    async def main():
        async with consumer(group_id=group, enable_auto_commit=False, **protocol) as one:
            listener.consumer = one
            one.subscribe([topic], listener=listener)
            found = []
            while not found:
                found = (await one.poll(1000, max_records=4)).get(tp, [])
            assert [record.offset for record in found] == [8, 9, 10, 11]
        assert 0 in listener.heard and listener.heard[-1] == 12

    run(main)


async def read_for_ever(one):
    while True:
        assert await one.poll(1000) == {}


def test_one_that_fails_or_is_cancelled_is_called_again_before_records_come(run, consumer, topic, tp, group):
    calls = []

    class Listener(Heard):
        async def on_partitions_assigned(self, assigned):
            calls.append(assigned)
            if len(calls) == 1:
                await anyio.sleep(0)
                raise LookupError
            if len(calls) == 2:
                await anyio.sleep(30)

    async def main():
        listener = Listener(topic)
        async with consumer(group_id=group) as one:
            one.subscribe([topic], listener=listener)
            with pytest.raises(LookupError):
                await read_for_ever(one)
            with anyio.move_on_after(0.2) as scope:
                await one.poll(10_000)
            assert scope.cancelled_caught and len(calls) == 2
            assert one.assignment() == listener.tps
            assert len((await one.poll(10_000))[tp]) > 0
            assert calls == [listener.tps] * 3

    run(main)


def test_an_error_of_a_revocation_is_raised_when_the_partitions_are_given_up(run, consumer, topic, group):
    class Listener(Heard):
        async def on_partitions_revoked(self, revoked):
            await anyio.sleep(0)
            raise LookupError

    async def main():
        listener = Listener(topic)
        async with consumer(group_id=group) as one:
            one.subscribe([topic], listener=listener)
            await joined(one, listener)
            with pytest.raises(LookupError):
                await one.unsubscribe()
            assert one.assignment() == set() and one.subscription() == set()

    run(main)


def test_a_rebalance_waits_for_a_poll_and_heartbeats_go_on_while_a_listener_runs(
    run_slow, consumer, topic, tp, group, short
):
    """The listener takes longer than a session. Meanwhile a call of another task is refused, but for ``health``."""

    class Listener(Heard):
        async def on_partitions_revoked(self, revoked):
            self.heard.append("revoking")
            await anyio.sleep(2.3)
            if tp in revoked:
                await self.consumer.commit({tp: 9})
            self.heard.append("revoked")

    async def main():
        listener = Listener(topic)
        options = {"group_id": group, **short, "max_poll_interval_ms": 10_000, "enable_auto_commit": False}
        async with consumer(**options) as one, consumer(**options) as other:
            listener.consumer = one
            one.subscribe([topic], listener=listener)
            await joined(one, listener)
            other.subscribe([topic])
            with anyio.move_on_after(0.3):
                await other.poll(10_000)
            await anyio.sleep(0.2)
            assert "revoking" not in listener.heard

            async def poll_until_shared(consumer):
                while len(consumer.assignment()) != 1:
                    await consumer.poll(200, max_records=1)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(poll_until_shared, one)
                tasks.start_soon(poll_until_shared, other)
            assert listener.heard[-4:-2] == ["revoking", "revoked"]
            assert await other.committed(tp) == 9, "its membership was alive until it had committed"

    run_slow(main)


def test_a_member_that_was_removed_awaits_the_listeners_loss(run_slow, consumer, topic, tp, group, short):
    class Listener(Heard):
        async def on_partitions_lost(self, lost):
            await anyio.sleep(0.02)
            self.heard.append(("lost", lost))

    async def main():
        listener = Listener(topic)
        async with consumer(group_id=group, **short) as one:
            one.subscribe([topic], listener=listener)
            await joined(one, listener)
            del listener.heard[:]
            await anyio.sleep(2.3)  # longer than max_poll_interval_ms
            await joined(one, listener)
            assert [said for said in listener.heard if isinstance(said, tuple)] == [
                ("lost", listener.tps),
                ("assigned", listener.tps),
            ]

    run_slow(main)


def test_a_plain_listener_runs_as_in_a_consumer_and_a_consumer_refuses_coroutines(run, consumer, broker, topic, group):
    heard = []

    class Plain(PartitionKeyRebalanceListener):
        def on_partitions_assigned(self, assigned):
            heard.append(assigned)

    async def main():
        async with consumer(group_id=group) as one:
            one.subscribe([topic], listener=Plain())
            while not one.assignment():
                await one.poll(1000)
            assert heard == [one.assignment()]
            with pytest.raises(IllegalArgumentError, match="on_partitions_assigned"):
                one.subscribe([topic], listener=object())

    run(main)
    plain = Consumer(bootstrap_servers=broker.bootstrap_servers, group_id=group)
    with plain, pytest.raises(IllegalArgumentError, match="async def"):
        plain.subscribe([topic], listener=Heard(topic))
