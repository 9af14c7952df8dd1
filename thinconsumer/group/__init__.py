"""Consumer groups: finding the coordinator, membership, the leader's assignment, and offset commits.

Sans-IO, and independent of ``fetch``: both work on :mod:`thinconsumer.partitions`. A step of the engine never calls
listeners or assignors; these wait as *work* for a call such as ``poll`` that may run them, see
:mod:`thinconsumer.group.role`. ``classic/`` is the protocol in which the leader computes the assignment; the protocol
of KIP-848 can be added beside it and share the rest.
"""

from .listener import RebalanceListener

__all__ = ["RebalanceListener"]
