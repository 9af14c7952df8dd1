"""A consumer's options: declared once, checked once, frozen, and handed to every room whole.

:class:`ConsumerConfig` is what rooms take. Owns names, types, bounds, defaults, and what options demand of each other.
Knows nothing of what they are used for, and does no I/O: a host name is not looked up here.
"""

from .build import ConfigurationWarning, dotted
from .options import OPTIONS, ConsumerConfig, Option, Resolver
from .unsupported import UNSUPPORTED, UNSUPPORTED_PREFIXES
from .values import Deserializer, Headers, HostPort, OffsetResetPolicy, OffsetResetStrategy

__all__ = [
    "OPTIONS",
    "UNSUPPORTED",
    "UNSUPPORTED_PREFIXES",
    "ConfigurationWarning",
    "ConsumerConfig",
    "Deserializer",
    "Headers",
    "HostPort",
    "OffsetResetPolicy",
    "OffsetResetStrategy",
    "Option",
    "Resolver",
    "dotted",
]
