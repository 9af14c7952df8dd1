"""Kafka's wire format: requests and responses to bytes and back, without state, sockets or clocks.

Each message is declared once, field by field in the order of Kafka's own definition (``common/message/*.json`` in the
kafka-clients jar), and compiled to an encoder and a decoder per version on first use. ``header`` adds the headers,
``error_codes`` explains error codes. Tests compare the declarations with Kafka's definitions, and the bytes with other
clients' codecs and with frames recorded from real brokers.
"""

from .message import Message
from .primitives import UnsupportedFieldError
from .schema import ZERO_UUID, Records, Struct

__all__ = ["ZERO_UUID", "Message", "Records", "Struct", "UnsupportedFieldError"]
