"""Consumer groups: finding the coordinator, membership, the leader's assignment, and offset commits.

Sans-IO. This package does not import ``fetch``; both change the partitions in :mod:`thinconsumer.positions`. No step of
the engine calls a listener or an assignor: ``poll``, ``close`` and other calls do so between steps, see
:mod:`thinconsumer.group.role`. ``classic/`` is the protocol in which the leader computes the assignment, ``consumer/``
the one in which the coordinator does (KIP-848).
"""

from .listener import PartitionKeyRebalanceListener, RebalanceListener

__all__ = ["PartitionKeyRebalanceListener", "RebalanceListener"]
