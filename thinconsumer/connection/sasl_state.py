"""Recognizes responses by which a broker says that their connection is not logged in (ILLEGAL_SASL_STATE)."""

from functools import cache

from ..wire import Message
from ..wire.error_codes import Code
from ..wire.schema import Primitive, Struct, wire_fields


def is_logged_out(response: Message, version: int) -> bool:
    """Return whether the response has the error code ILLEGAL_SASL_STATE.

    Brokers that refuse a request as a whole put the code into the response, or else into each of its topics, partitions
    or groups, of which the first is looked at: comparing all would make responses of thousands of partitions slower.
    """
    found: object = response
    for name in _path_to_code(type(response), version):
        found = getattr(found, name)
        if isinstance(found, list):
            if not found:
                return False
            found = found[0]
    return found == Code.ILLEGAL_SASL_STATE


@cache
def _path_to_code(cls: type[Struct], version: int) -> tuple[str, ...]:
    """Return the names of the fields from a struct to its first error code; empty if it has none in this version."""
    known = [(name, wire) for name, wire in wire_fields(cls) if version in wire.versions]
    for name, _ in known:
        if name == "error_code":
            return (name,)
    for name, wire in known:
        if wire.array and not isinstance(wire.of, Primitive):
            rest = _path_to_code(wire.of, version)
            if rest:
                return (name, *rest)
    return ()
