"""A Kafka cluster without I/O: the broker side of the protocol.

``server`` runs it on sockets, ``thinconsumer_testing.cluster`` on an in-memory network with a virtual clock. Broker and
client share the codec and small helpers, but no logic of the protocol, so that they cannot make the same mistake in it.

This module exports the public names: two ways to run a broker, its configuration and errors, the interface of its
assignors, records to write, and fault rules with their actions.
"""

from thinconsumer.records.builder import NewRecord

from .config import BrokerConfig
from .control import BrokerProcessError
from .controller import ControllerError
from .faults import Delay, Disconnect, Edit, EntryError, FaultRule, Pass, Raw, ReceivedRequest, Reply, Silence
from .group.consumer.assignors.user_assignor import ConsumerGroupPartitionAssignor, MemberSubscription
from .process import BrokerProcess
from .security import ListenerSecurity
from .server import EmbeddedBroker

__all__ = [
    "BrokerConfig", "BrokerProcess", "BrokerProcessError", "ConsumerGroupPartitionAssignor", "ControllerError", "Delay",
    "Disconnect", "Edit", "EmbeddedBroker", "EntryError", "FaultRule", "ListenerSecurity", "MemberSubscription",
    "NewRecord", "Pass", "Raw", "ReceivedRequest", "Reply", "Silence",
]  # fmt: skip
