"""Consumer groups of the protocol of KIP-848, on the coordinator's side.

The coordinator computes the *target assignment* of a group, and moves each member towards it by heartbeat responses: a
member revokes partitions before they are assigned to others. A group's state follows from the coordinator's log:
handlers read a :class:`~.group.ConsumerGroup` and append records, whose replay changes the group.
Modelled on ``modern/consumer`` of Kafka's ``group-coordinator``, version 4.3.
"""
