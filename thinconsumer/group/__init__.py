"""Consumer groups: finding the coordinator, membership, the leader's assignment, and offset commits.

Sans-IO, and independent of ``fetch``: both work on :mod:`thinconsumer.partitions`. A step of the engine calls no
listener and no assignor; ``poll`` and ``close`` call them between steps, see :mod:`thinconsumer.group.role`.
``classic/`` is the protocol in which the leader computes the assignment; KIP-848's could be added beside it.
"""

from .listener import RebalanceListener

__all__ = ["RebalanceListener"]
