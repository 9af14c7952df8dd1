"""A Kafka cluster without I/O: the server's side of the protocol, built once, with two shells around it.

``server`` puts sockets around it, ``testing`` a network in memory on a virtual clock. It shares the codec with the
client and nothing else, so that it is a second opinion on the protocol and not an echo of the client's.

What users of it need is here: the two ways to run it, its settings, and the actions of fault rules.
"""

from .config import BrokerConfig
from .controller import ControllerError
from .faults import Delay, Disconnect, Edit, EntryError, Pass, Raw, ReceivedRequest, Reply, Rule, Silence
from .process import BrokerProcess, BrokerProcessError
from .server import EmbeddedBroker

__all__ = [
    "BrokerConfig",
    "BrokerProcess",
    "BrokerProcessError",
    "ControllerError",
    "Delay",
    "Disconnect",
    "Edit",
    "EmbeddedBroker",
    "EntryError",
    "Pass",
    "Raw",
    "ReceivedRequest",
    "Reply",
    "Rule",
    "Silence",
]
