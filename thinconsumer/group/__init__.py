"""Being in a group: where its coordinator is, membership, the leader's work, commits.

Sans-IO, like ``fetch``, which it never meets: both read and move :mod:`thinconsumer.partitions`. What runs users' code
(listeners, assignors) is never run inside a step; it waits as *work* until a call that may run it comes along, see
:mod:`thinconsumer.group.role`. ``classic/`` is the protocol in which members compute the plan; KIP-848's reconciliation
can stand beside it and share the rest.
"""

from .listener import RebalanceListener

__all__ = ["RebalanceListener"]
