"""The options: each declared once with its type, bounds and default, checked together, and kept in frozen objects.

:class:`ConsumerConfig` holds those of one consumer. This package does no I/O, such as looking a host name up.
"""

from .build import ConfigurationWarning, dotted
from .options import OPTIONS, ConsumerConfig, Option, Resolver
from .unsupported import UNSUPPORTED
from .values import Deserializer, Headers, HostPort, OffsetResetPolicy, OffsetResetStrategy

__all__ = [
    "OPTIONS",
    "UNSUPPORTED",
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
