"""Brokers come and go: readers go on with the next leader, lose nothing and see nothing twice."""

from thinconsumer import TopicPartition


def test_the_leader_moves(world3):
    topic = world3.topic(partitions=2, replication=3)
    tps = [TopicPartition(topic, p) for p in range(2)]
    with world3.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign(tps)
        total = []
        for round_ in range(4):
            for tp in tps:
                world3.write(topic, [b"%d" % n for n in range(10)], partition=tp.partition)
            total += world3.read(consumer, 20)
            world3.move_leader(topic, round_ % 2)
        for tp in tps:
            world3.write(topic, [b"end"], partition=tp.partition)
        total += world3.read(consumer, 2)
    for tp in tps:
        assert [record.offset for record in total if record.partition == tp.partition] == list(range(41))


def test_the_leader_dies(world3):
    topic = world3.topic(replication=3)
    tp = TopicPartition(topic, 0)
    with world3.consumer(auto_offset_reset="earliest", request_timeout_ms=3000) as consumer:
        consumer.assign([tp])
        world3.write(topic, [b"%d" % n for n in range(10)])
        assert len(world3.read(consumer, 10)) == 10
        dead = world3.kill_leader(topic)
        world3.write(topic, [b"%d" % n for n in range(10, 20)])
        assert [record.offset for record in world3.read(consumer, 10)] == list(range(10, 20))
        world3.start(dead)
        world3.write(topic, [b"end"])
        assert world3.read(consumer, 1)[0].offset == 20


def test_epochs_are_those_of_the_leaders_who_wrote(world3):
    topic = world3.topic(replication=3)
    tp = TopicPartition(topic, 0)
    world3.write(topic, [b"a"])
    world3.move_leader(topic)
    world3.write(topic, [b"b"])
    with world3.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        first, second = world3.read(consumer, 2)
        assert first.leader_epoch < second.leader_epoch
