"""Lets what the consumers of this room raise and return be of the classes of the client that they stand in for.

A peer is such a client: aiokafka or kafka-python. Where it is installed, values are of its own classes, and an error is
an instance both of this package's class and of the peer's. Without it, the same names are this package's classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

from .. import errors
from ..errors import BrokerResponseError, KafkaError, NoOffsetForPartitionError, OffsetOutOfRangeError
from ..types import TopicPartition

__all__ = ["AIOKAFKA", "KAFKA_PYTHON", "PeerClasses"]

T = TypeVar("T")


def _positions(error: OffsetOutOfRangeError, topic_partition: Callable[..., Any]) -> tuple[Any, ...]:
    return error.args if error.partition is None else ({topic_partition(*error.partition): error.position},)


def _partitions(error: NoOffsetForPartitionError, topic_partition: Callable[..., Any]) -> tuple[Any, ...]:
    return tuple(topic_partition(*tp) for tp in error.partitions) or error.args


#: By class: what an error of the peers has as ``args`` in place of a text. Programs seek the partitions in it.
ARGUMENTS: dict[type, Callable[[Any, Any], tuple[Any, ...]]] = {
    OffsetOutOfRangeError: _positions,
    NoOffsetForPartitionError: _partitions,
}


class PeerClasses:
    """The classes of a package that may be installed. It is imported when the first class is looked up.

    Args:
        package: the name to import, such as ``"aiokafka"``.
        other_names: by the name of an error of this package, that of the peer's class for it.
    """

    def __init__(self, package: str, other_names: Mapping[str, str]) -> None:
        self.package = package
        self._other_names = dict(other_names)
        self._own_names = {name: own for own, name in other_names.items()}
        #: By name: modules of the peer; None if they cannot be imported.
        self._modules: dict[str, ModuleType | None] = {}
        #: By class of this package and error code: the class of an instance of both.
        self._combined: dict[tuple[type, int | None], type[KafkaError]] = {}

    def find(self, path: str, fallback: T) -> T:
        """Return the peer's class at a path such as ``"structs.TopicPartition"``, or ``fallback`` without the peer."""
        module, _, name = path.rpartition(".")
        return getattr(self._module(module), name, fallback)

    def error(self, name: str) -> Any:
        """Return the exception that programs catch under the peer's name for it.

        Without the peer, it is this package's class. If this package has none, since it never raises such an error,
        it is a new subclass of ``KafkaError``.

        Raises:
            AttributeError: the peer is installed and has no such exception, or the name is not that of a class.
        """
        module = self._module("errors")
        if module is not None:
            return getattr(module, name)
        own = getattr(errors, self._own_names.get(name, name), None)
        if own is None:
            if not name[:1].isupper():
                raise AttributeError(f"no error is named {name!r}")
            own = type(name, (KafkaError,), {"__doc__": f"{self.package}'s error of this name: it is never raised."})
        return own

    def adopt(self, error: T) -> T:
        """Make an error of this package an instance of the peer's class, too, and return it; leave others as they are.

        It stays the same object, with its traceback, cause and attributes. See ``ARGUMENTS`` for two whose ``args``
        become the peer's, also without the peer.
        """
        if isinstance(error, KafkaError) and (type(error) in ARGUMENTS or self._module("errors") is not None):
            own = type(error)
            code = error.code if isinstance(error, BrokerResponseError) else None
            if own not in self._combined.values():
                combined = self._combined.get((own, code))
                if combined is None:
                    combined = self._combined[own, code] = self._combine(own, code)
                error.__class__ = combined  # type: ignore[assignment]
                if own in ARGUMENTS and "text" not in vars(error):
                    vars(error)["text"] = str(error)
                    error.args = ARGUMENTS[own](error, self.find("structs.TopicPartition", TopicPartition))
        return error

    @contextmanager
    def adopting(self) -> Iterator[None]:
        """Let errors that leave the block be instances of the peer's classes, too."""
        try:
            yield
        except KafkaError as error:
            self.adopt(error)
            raise

    def _module(self, name: str) -> ModuleType | None:
        if name not in self._modules:
            try:
                with warnings.catch_warnings():
                    # kafka-python's import calls what Python 3.11 deprecates: an error under ``-W error``.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    self._modules[name] = import_module(f"{self.package}.{name}")
            except ImportError:
                self._modules[name] = None
        return self._modules[name]

    def _combine(self, own: type[KafkaError], code: int | None) -> type[KafkaError]:
        """Return a subclass of ``own`` and of the peer's classes for it and its base classes."""
        module = self._module("errors")
        found: dict[type, None] = {}  # in order
        if code is not None and module is not None:
            found[module.for_code(code)] = None
        for base in own.__mro__:
            for name in (base.__name__, self._other_names.get(base.__name__, "")):
                if issubclass(base, KafkaError) and hasattr(module, name):
                    found[getattr(module, name)] = None
        # A base class before its subclass, or beside it, would leave no order for the methods.
        peers = [kind for kind in found if not any(issubclass(other, kind) for other in found if other is not kind)]
        package = self.package

        def __reduce__(self: KafkaError) -> tuple[Any, ...]:
            _, (_, *arguments), state = own.__reduce__(self)
            return _restored, (package, own, tuple(arguments), state)

        # kafka-python's errors compare by class, and therefore have no hash.
        body = {
            "__reduce__": __reduce__,
            "__hash__": own.__hash__,
            "__module__": own.__module__,
            "__doc__": own.__doc__,
        }
        if code is not None:
            body["errno"] = code
        if own in ARGUMENTS:
            body["__str__"] = lambda self: vars(self).get("text") or KafkaError.__str__(self)
        return type(own.__name__, (own, *peers), body)


def _restored(package: str, own: type[KafkaError], arguments: tuple[Any, ...], state: dict[str, Any]) -> KafkaError:
    """Return a pickled error; it is the peer's as well where the peer is installed."""
    error = own.__new__(own, *arguments)
    error.__setstate__(state)
    return PEERS[package].adopt(error)


#: Names of aiokafka and of kafka-python's version 2.
_OTHER_NAMES = {
    "CorruptRecordError": "CorruptRecordException",
    "SaslAuthenticationFailedError": "AuthenticationFailedError",
}
AIOKAFKA = PeerClasses("aiokafka", _OTHER_NAMES)
KAFKA_PYTHON = PeerClasses("kafka", _OTHER_NAMES)
PEERS = {peer.package: peer for peer in (AIOKAFKA, KAFKA_PYTHON)}
