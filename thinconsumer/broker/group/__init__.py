"""The group coordinator: classic groups, their generations, and committed offsets.

The broker side of Kafka's classic group protocol and of offset commits, written from Kafka's ``group-coordinator``. The
node uses :class:`~.coordinator.GroupCoordinator`; one :class:`~.shard.GroupCoordinatorShard` per partition of
``__consumer_offsets`` that the node leads keeps its persistent state there.
"""
