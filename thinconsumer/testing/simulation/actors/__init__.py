"""The actors of a world: consumers, members of groups, producers, the log writer, and tests' own code."""

from .application import Application, Behaviour
from .consumer import ConsumerActor
from .log_writer import LogWriter
from .member import MemberActor
from .producer import ProducerActor
from .user import UserActor
from .worker import WorkerActor

__all__ = [
    "Application",
    "Behaviour",
    "ConsumerActor",
    "LogWriter",
    "MemberActor",
    "ProducerActor",
    "UserActor",
    "WorkerActor",
]
