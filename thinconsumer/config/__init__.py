"""The options of clients: declarations with type, bounds and default, checks, and frozen objects with the values.

:class:`ConsumerConfig` holds the options of one consumer. This package checks that files can be read, but does not use
the network: server addresses are only parsed, and the driver looks up their host names later.
"""

from .build import ConfigurationWarning, dotted
from .client_options import ClientOptions
from .declare import Option
from .options import OPTIONS, ConsumerConfig, Resolver
from .security import SecurityOptions
from .security_kinds import Secret
from .unsupported import UNSUPPORTED
from .values import DeadLetter, Deserializer, Headers, HostPort, OffsetResetPolicy, OffsetResetStrategy, dead_letter

__all__ = [
    "OPTIONS",
    "UNSUPPORTED",
    "ClientOptions",
    "ConfigurationWarning",
    "ConsumerConfig",
    "DeadLetter",
    "Deserializer",
    "Headers",
    "HostPort",
    "OffsetResetPolicy",
    "OffsetResetStrategy",
    "Option",
    "Resolver",
    "Secret",
    "SecurityOptions",
    "dead_letter",
    "dotted",
]
