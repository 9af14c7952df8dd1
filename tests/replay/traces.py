"""Programs of which tests make traces: each returns after it has closed its consumer."""

from thinconsumer import TopicPartition
from thinconsumer.replay import RecordingConsumer
from thinconsumer_testing import MemoryCluster

ORDERS = [TopicPartition("orders", number) for number in range(2)]


def new_cluster(records=10):
    cluster = MemoryCluster(2, topics={"orders": 2})
    for number in range(2):
        cluster.produce("orders", [b"%d" % n for n in range(records)], partition=number)
    return cluster


def recording(cluster, trace, *topics, **options):
    options = {"auto_offset_reset": "earliest", "bootstrap_servers": cluster.bootstrap_servers, **options}
    return RecordingConsumer(*topics, trace=trace, driver=cluster.driver(), **options)


class Listener:
    def on_partitions_assigned(self, assigned):
        pass

    def on_partitions_revoked(self, revoked):
        pass


def read_through_a_failure(trace, cluster=None, **options):
    """A member reads, waits in vain, loses a broker, and commits."""
    cluster = cluster or new_cluster()
    with recording(cluster, trace, group_id="readers", **options) as consumer:
        consumer.subscribe(["orders"], listener=Listener())
        count = 0
        while count < 20:
            count += sum(map(len, consumer.poll(1000).values()))
        consumer.poll(300)
        consumer.pause(*ORDERS)
        for _ in range(5):
            consumer.poll(0)
        consumer.resume(*ORDERS)
        cluster.kill(2)
        consumer.poll(1000)
        cluster.start(2)
        consumer.seek(ORDERS[0], 4)
        consumer.poll(1000)
        consumer.commit()
