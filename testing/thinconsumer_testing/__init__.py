"""Kafka in memory, for tests without a network, a clock or a JVM: time is virtual, and each run gives the same result.

::

    cluster = MemoryCluster(2, topics={"orders": 3})
    cluster.produce("orders", [b"a", b"b"])
    consumer = Consumer(bootstrap_servers=cluster.bootstrap_servers, driver=cluster.driver())
    consumer.assign([TopicPartition("orders", 0)])
    consumer.poll(timeout_ms=60_000)                    # returns at once
    cluster.received(FetchRequest, node=1)              # the requests that broker 1 got

* **Brokers** are those of :mod:`.broker`: leaders, replication, groups and transactions behave as in Kafka
  4.x. :meth:`MemoryCluster.kill`, ``start``, ``move_leader``, ``remove_leader`` and ``set_versions`` act on them.
* **Fault rules** delay, change or drop single responses: ``cluster.on("Fetch", Delay(1.0), times=1)``. The actions
  ``Pass``, ``Reply``, ``Edit``, ``EntryError``, ``Raw``, ``Delay``, ``Disconnect`` and ``Silence`` are in
  :mod:`.broker`.
* **Network faults** are methods of ``cluster.network`` that take a host and a port: ``refuse``, ``reset``, ``kill``,
  ``pause`` (SIGSTOP), ``black_hole``, ``resume``. ``network.names["kafka1"] = "the name does not resolve"`` makes a
  lookup fail. ``Network(chunk=1)`` delivers byte by byte, ``send_limit=1`` sends byte by byte. ``network.dials`` and
  ``network.lookups`` list all connection attempts and name lookups.
* **Time** passes only inside :meth:`MemoryDriver.step`, which jumps to the next event, or by
  ``cluster.clock.advance(seconds)``.
* A server that is not Kafka is any :class:`Peer`; :class:`ScriptedPeer` sends fixed bytes.

:class:`Simulation` adds random network faults, and checkers of what consumers return::

    sim = Simulation(seed=1, brokers=3, topics={"orders": 6})
    consumer = sim.consumer(assign={"orders": [0, 1]}, auto_offset_reset="earliest")
    sim.produce("orders", 0, [b"a", b"b"])
    sim.kill(1)
    sim.run_until(lambda: len(consumer.records) == 2)
    sim.check()                                         # no record skipped, repeated or out of order, ...

Your own clients join a simulation with ``Consumer(driver=sim.driver())``.

For clients over real sockets the same broker runs in a process of its own (:class:`BrokerProcess`) or in the calling
thread (:class:`EmbeddedBroker`). :class:`CertificateAuthority` makes certificates for it. :mod:`.fixtures` has pytest
fixtures. :class:`ServerSideAssignor` runs a client's :class:`~thinconsumer.assignors.PartitionAssignor` in the broker.
"""

from typing import TYPE_CHECKING, Any

from thinconsumer.records.builder import NewRecord

from .broker.control import BrokerProcessError
from .broker.process import BrokerProcess
from .broker.server import EmbeddedBroker
from .certificates import CertificateAuthority
from .clock import VirtualClock
from .cluster import MemoryCluster
from .driver import MemoryDriver
from .network import Network
from .peer import Conversation, Peer, PeerConnection, ScriptedPeer
from .server_side import ServerSideAssignor

if TYPE_CHECKING:
    from .simulation import Simulation, Violation

__all__ = [
    "BrokerProcess",
    "BrokerProcessError",
    "CertificateAuthority",
    "Conversation",
    "EmbeddedBroker",
    "MemoryCluster",
    "MemoryDriver",
    "Network",
    "NewRecord",
    "Peer",
    "PeerConnection",
    "ScriptedPeer",
    "ServerSideAssignor",
    "Simulation",
    "Violation",
    "VirtualClock",
]

#: Names that this package imports only when they are first used, since programs that only
#: use a broker need no simulation.
_LAZY = frozenset(("Simulation", "Violation"))


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from . import simulation

        return getattr(simulation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
