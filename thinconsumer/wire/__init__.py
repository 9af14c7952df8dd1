"""The wire format: bytes to messages and back. One file per API; knows no state, no socket and no clock.

Messages are declared once, as data, in the order of Kafka's own definitions (``common/message/*.json`` in kafka-
clients), and compiled to encoders and decoders per version when a version is first used. ``header`` frames them,
``apis`` lists them, ``error_codes`` says what their error codes mean. Tests compare the declarations with Kafka's, and
the bytes with other clients' codecs and real brokers.
"""

from .message import Message
from .primitives import UnsupportedFieldError
from .schema import ZERO_UUID, Records, Struct

__all__ = ["ZERO_UUID", "Message", "Records", "Struct", "UnsupportedFieldError"]
