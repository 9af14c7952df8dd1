"""The group coordinator: classic groups, their generations, and committed offsets.

The broker side of Kafka's classic group protocol and of offset commits, modelled on Kafka's ``group-coordinator``; the
groups of KIP-848 are in ``consumer``. Each broker has one :class:`~.coordinator.GroupCoordinator`, which has one
:class:`~.shard.GroupCoordinatorShard` for each partition of ``__consumer_offsets`` that the broker leads, with the
groups and offsets in that partition.
"""
