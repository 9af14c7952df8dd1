"""Those who live in a world and have turns: consumers, producers, and whatever a test brings along."""

from .consumer import Behaviour, ConsumerActor
from .producer import ProducerActor
from .user import UserActor

__all__ = ["Behaviour", "ConsumerActor", "ProducerActor", "UserActor"]
