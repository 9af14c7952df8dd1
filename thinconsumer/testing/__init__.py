"""Kafka in memory, for tests without a network, a clock or a JVM: everything is virtual, and each run is the same.

::

    cluster = ScriptedCluster(node_ids=(1, 2), topics={"orders": 3})
    cluster.topics.append_values(TopicPartition("orders", 0), [b"a", b"b"])
    driver = cluster.driver()
    consumer = Consumer(bootstrap_servers=cluster.bootstrap_servers, driver=driver)
    consumer.assign([TopicPartition("orders", 0)])
    consumer.poll(timeout_ms=60_000)                    # takes no time at all
    cluster.brokers[1].received(FetchRequest)           # what the broker was asked

* **Time** passes only inside :meth:`MemoryDriver.step`, which jumps to the next moment at which something can
  happen, or by ``cluster.clock.advance(seconds)``. Waiting for what can never happen fails.
* **Faults** are ordered from ``cluster.network`` by host and port: ``refuse``, ``reset``, ``kill``, ``pause``
  (SIGSTOP), ``black_hole``, ``resume``; ``names["kafka1"] = "the name does not resolve"`` breaks DNS.
  ``Network(chunk=1)`` delivers byte by byte, ``send_limit=1`` sends so. ``network.dials`` and ``network.lookups``
  tell what was tried.
* **Answers** are functions: ``broker.handlers[FetchRequest] = lambda request, version, connection: FetchResponse()``,
  or one of :class:`Delay`, :class:`Silence`, :class:`Disconnect`, :class:`Raw`; ``broker.answer_once(api, *replies)``
  for the next few. ``broker.versions[1] = (4, 11)`` makes it older. ``broker.requests`` has everything it heard.
* **Topics** are data: ``cluster.partition("orders", 0).elect(2)``, ``.append(batch)``, ``.delete_before(100)``,
  ``.error_code = 3``; then ``cluster.topics.changed()`` when a parked Fetch should notice.
* Anything with ``connection_made`` can listen instead of a scripted broker: see :class:`Peer`.

With the broker's own code in place of the script, and a network that fails by itself, it is a :class:`Simulation`::

    sim = Simulation(seed=1, brokers=3, topics={"orders": 6})
    consumer = sim.consumer(assign={"orders": [0, 1]}, auto_offset_reset="earliest")
    sim.produce("orders", 0, [b"a", b"b"])
    sim.kill(1)
    sim.run_until(lambda: len(consumer.records) == 2)
    sim.check()                                         # nothing skipped, doubled, out of order, ...

Its face is in :mod:`.simulation`; clients of your own take part with ``Consumer(driver=sim.driver())``.

The same broker behind real sockets, for any client: :class:`BrokerProcess` in a process of its own,
:class:`EmbeddedBroker` on your own thread. :mod:`.fixtures` has pytest fixtures of all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..broker.process import BrokerProcess, BrokerProcessError
from ..broker.server import EmbeddedBroker
from .broker import VERSIONS_4X, Delay, Disconnect, Raw, Received, ScriptedBroker, Silence
from .clock import VirtualClock
from .cluster import ScriptedCluster
from .driver import MemoryDriver
from .memory_cluster import MemoryCluster
from .network import Network
from .peer import Conversation, Peer, PeerConnection, ScriptedPeer
from .topics import PartitionLog, Topics

if TYPE_CHECKING:
    from .simulation import Simulation, Swarm, Violation

__all__ = [
    "VERSIONS_4X",
    "BrokerProcess",
    "BrokerProcessError",
    "Conversation",
    "Delay",
    "Disconnect",
    "EmbeddedBroker",
    "MemoryCluster",
    "MemoryDriver",
    "Network",
    "PartitionLog",
    "Peer",
    "PeerConnection",
    "Raw",
    "Received",
    "ScriptedBroker",
    "ScriptedCluster",
    "ScriptedPeer",
    "Silence",
    "Simulation",
    "Swarm",
    "Topics",
    "Violation",
    "VirtualClock",
]

#: Whole worlds are imported when they are asked for: nobody else pays for the broker's code behind them.
_LAZY = frozenset(("Simulation", "Swarm", "Violation"))


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from . import simulation

        return getattr(simulation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
