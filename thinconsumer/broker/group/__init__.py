"""The group coordinator: who is in a classic group, which generation it is in, and how far it has read.

Server side of Kafka's classic group protocol and of committed offsets, written from Kafka's ``group-coordinator``. The
node asks :class:`~.coordinator.GroupCoordinator`; one :class:`~.shard.Shard` stands for each partition of
``__consumer_offsets`` that the node leads, and keeps there what has to survive it.
"""
