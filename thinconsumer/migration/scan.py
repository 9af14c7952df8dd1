"""Finds what to change in a module that uses a consumer of kafka-python, confluent-kafka or aiokafka."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..config import OPTIONS as OWN_OPTIONS
from ..config import ConfigurationWarning, ConsumerConfig
from ..config.kinds import Boolean, Choice, Integer, MillisecondsOrNever, OffsetReset
from ..config.unsupported import ALIASES, OLDER_NAMES, translated
from ..errors import KafkaConfigurationError
from . import confluent, peers
from .confluent import Advice
from .module import Module, Scope, Settings, literal
from .uses import CONFLUENT, LISTENER, Uses, ends

LIBRARIES = (*peers.PEERS, CONFLUENT)
#: Kinds of options whose values can be checked without files, and are no secrets.
_CHECKED = (Boolean, Choice, Integer, MillisecondsOrNever, OffsetReset)


class Finding(NamedTuple):
    """Something to change."""

    line: int
    what: str  #: What is there.
    instead: str  #: What to write instead.
    why: str  #: The reason; may be empty.
    also: tuple[int, ...] = ()  #: Further lines with the same.


def scan(text: str) -> list[Finding]:
    """Return what to change, by line. Nothing is run.

    Raises:
        ValueError: the text is no Python of this version.
    """
    if "kafka" not in text:
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in a string, for example
            module = Module(text)
        return _merged(_Scan(module).findings())
    except SyntaxError as error:
        place = f"line {error.lineno}: " if error.lineno else ""
        raise ValueError(f"{place}{error.msg}") from None
    except (MemoryError, RecursionError):  # of the parser
        raise ValueError("it is nested too deeply") from None


def _merged(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings by line; what is the same in several lines is one."""
    lines: dict[tuple[str, str, str], list[int]] = {}
    for line, what, instead, why, _ in findings:
        lines.setdefault((what, instead, why), []).append(line)
    merged = []
    for words, found in lines.items():
        first, *also = sorted(set(found))
        merged.append(Finding(first, *words, also=tuple(also)))
    return sorted(merged)


class _Scan:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.uses = Uses(module)

    def findings(self) -> Iterator[Finding]:
        for node, scope in self.module.places:
            if isinstance(node, ast.ImportFrom):
                yield from self._import_from(node)
            elif isinstance(node, ast.Call):
                yield from self._call(node, scope)
            elif isinstance(node, ast.Attribute):
                yield from self._attribute(node, scope)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                yield from self._name(node)
            elif isinstance(node, ast.ClassDef):
                yield from self._class(node)

    # -- names

    def _import_from(self, node: ast.ImportFrom) -> Iterator[Finding]:
        package = ends(node.module or "")[0]
        if node.level or package not in LIBRARIES or not self.uses.uses(package):
            return
        moved: dict[str, list[str]] = {}
        stays: list[str] = []
        for name in node.names:
            target = self._target(node.module or "", name.name)
            if target is None:
                stays.append(name.name + f" as {name.asname}" * (name.asname is not None))
            elif target:
                where, _, new = target.rpartition(".")
                alias = name.asname or (
                    name.name
                    if package == CONFLUENT and new != name.name and name.name in confluent.CONSUMERS
                    else None
                )
                moved.setdefault(where, []).append(new + f" as {alias}" * (alias is not None and alias != new))
        lines = [f"from {where} import {', '.join(sorted(set(names)))}" for where, names in moved.items()]
        if not lines and len(stays) == len(node.names):
            return
        if stays:
            lines.append(f"from {node.module} import {', '.join(stays)}")
        is_same = package != CONFLUENT and all(where.startswith(peers.PEERS[package].compat) for where in moved)
        why = "the same names and calls" if is_same else ""
        yield Finding(node.lineno, f"import from {node.module}", "; ".join(lines) or "leave it out", why)

    def _target(self, module: str, name: str) -> str | None:
        """Return the dotted name to import in place of a name; None if it stays, "" if there is none."""
        package, _, path = module.partition(".")
        if package == CONFLUENT:
            advice = confluent.NAMES.get(name) if name in confluent.NAMES else None
            if advice is None or (name in ("KafkaError", "KafkaException") and self.uses.has_other_clients()):
                return None
            return advice.instead if advice.instead.startswith("thinconsumer.") else ""
        peer = peers.PEERS[package]
        last = path.rpartition(".")[2]
        if last == "errors" or (package == "kafka" and path == "common" and name.endswith(("Error", "Exception"))):
            return f"{peer.compat}.errors.{name}"
        if name in peer.advice:
            return (
                peer.advice[name].instead
                if peer.advice[name].instead.startswith("thinconsumer.")
                else f"{peer.compat}.{peer.consumer}"
            )
        for room, names in {"": peer.names, "structs": peer.structs, **peer.others}.items():
            if name in names:
                return ".".join(filter(None, (peer.compat, room, name)))
        if not path and name in ("errors", "structs"):
            return f"{peer.compat}.{name}"
        return None

    def _name(self, node: ast.Name) -> Iterator[Finding]:
        yield from self._named(node.lineno, self.module.imported.get(node.id, ""))

    def _named(self, line: int, qualified: str) -> Iterator[Finding]:
        """Yield what to write instead of a name of a library; of the compatible ones, only those without an equal."""
        package, name = ends(qualified)
        if package == CONFLUENT and self.uses.uses(package) and name not in confluent.CONSUMERS:
            if (advice := confluent.NAMES.get(name)) is not None and name not in ("KafkaError", "TopicPartition"):
                yield Finding(line, name, *advice)
        elif package in peers.PEERS and (advice := peers.PEERS[package].advice.get(name)) is not None:
            yield Finding(line, name, *advice)

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Iterator[Finding]:
        qualified = self.module.qualified(node)
        package, name = ends(qualified)
        owner = self.module.qualified(node.value)
        if ends(owner) == (CONFLUENT, "KafkaError") and self.uses.uses(CONFLUENT):
            yield Finding(node.lineno, f"KafkaError.{name}", *confluent.CODES.get(name, confluent.OTHER_CODE))
            return
        if qualified and package in LIBRARIES and self.uses.uses(package):
            target = self._target(owner, name)
            if target and package != CONFLUENT:
                yield Finding(node.lineno, qualified, target, "the same names and calls")
            else:
                yield from self._named(node.lineno, qualified)
        is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
        is_private = node.attr.startswith("_") and not node.attr.startswith("__") and not is_own
        if is_private and ends(self.uses.consumer(node.value, scope))[0] in peers.PEERS:
            yield Finding(node.lineno, node.attr, *peers.PRIVATE)

    def _class(self, node: ast.ClassDef) -> Iterator[Finding]:
        bases = {ends(self.module.qualified(base)) for base in node.bases}
        asynchronous = [
            one for one in node.body if isinstance(one, ast.AsyncFunctionDef) and one.name.startswith("on_")
        ]
        if ("kafka", LISTENER) in bases and asynchronous:
            yield Finding(asynchronous[0].lineno, f"async def {asynchronous[0].name}", *peers.ASYNC_LISTENER)

    # -- calls

    def _call(self, node: ast.Call, scope: Scope) -> Iterator[Finding]:
        found = self.uses.class_of(node.func)
        if not found and isinstance(node.func, ast.Attribute) and node.func.attr == "__init__":  # of super()
            found = self.uses.initialized(node, scope)
        if found:
            yield from self._constructed(node, scope, found)
            return
        package, method = self.uses.called(node, scope)
        if package == CONFLUENT:
            yield from self._confluent_call(node, method)
        elif package == "kafka" and method == "metrics" and (node.args or node.keywords):
            yield Finding(node.lineno, "metrics(raw=True)", *peers.RAW_METRICS)
        elif package == "aiokafka" and method == "unsubscribe":
            yield Finding(node.lineno, "unsubscribe()", *peers.UNSUBSCRIBE)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        advice = confluent.OF_MESSAGES.get(method)
        if advice and isinstance(node.func, ast.Attribute) and self.uses.message(node.func.value, scope):
            is_plain = advice is confluent.OF_MESSAGES["value"]
            yield Finding(node.lineno, "a method of a message" if is_plain else f"{ast.unparse(node.func)}()", *advice)
        if ends(self.module.qualified(node.func)) == (CONFLUENT, "TopicPartition") and self.uses.uses(CONFLUENT):
            yield from self._partition(node)

    @staticmethod
    def _partition(node: ast.Call) -> Iterator[Finding]:
        given = {*("topic", "partition", "offset")[: len(node.args)], *(keyword.arg for keyword in node.keywords)}
        if "offset" in given:
            yield Finding(node.lineno, "TopicPartition with an offset", *confluent.PARTITION_WITH_OFFSET)
        elif "partition" not in given and None not in given:
            yield Finding(node.lineno, "TopicPartition without a partition", *confluent.PARTITION_OF_TOPIC)

    def _confluent_call(self, node: ast.Call, method: str) -> Iterator[Finding]:
        advice = confluent.METHODS.get(method)
        if advice is not None:
            yield Finding(node.lineno, f"{method}()", *advice)
        if method == "subscribe":
            for keyword in node.keywords:
                if keyword.arg in confluent.CALLBACKS:
                    yield Finding(node.lineno, f"subscribe({keyword.arg}=...)", *confluent.CALLBACKS[keyword.arg])
            topics = literal(node.args[0]) if node.args else ()
            if isinstance(topics, list) and any(str(one).startswith("^") for one in topics):
                yield Finding(node.lineno, f"subscribe({topics!r})", *confluent.PATTERN)

    # -- options

    def _constructed(self, node: ast.Call, scope: Scope, found: str) -> Iterator[Finding]:
        package, name = ends(found)
        is_dotted = package == CONFLUENT
        settings = self.module.settings(node, scope, from_dict=is_dotted)
        if is_dotted:
            new = confluent.CONSUMERS[name].instead.rpartition(".")[2]
            yield Finding(
                node.lineno, f"{name}(...)", f"{new}.from_config({{...}})", "the names and units of the options stay"
            )
        for option, value in settings.values.items():
            advice = of_option(package, option, literal(value))
            if advice is not None:
                line = getattr(value, "lineno", node.lineno)
                yield Finding(line, option, *advice)
        if settings.elsewhere:
            parts = ", ".join(dict.fromkeys(settings.elsewhere))
            what = f"options of {name} from elsewhere: {parts}"
            yield Finding(node.lineno, what, "compare them with docs/migrating.md", "they are not in this file")
        yield from _defaults(node.lineno, package, settings)


def _defaults(line: int, package: str, settings: Settings) -> Iterator[Finding]:
    """Yield what options mean that are not given, or given with the value of the other library."""
    names = {name.replace(".", "_") for name in settings.values}
    if package == CONFLUENT and not settings.elsewhere:
        for name, advice in confluent.DEFAULTS.items():
            if name not in settings.values:
                yield Finding(line, f"{name} is not given", *advice)
    group = settings.values.get("group.id", settings.values.get("group_id"))
    if package != "aiokafka" and group is not None and literal(group) is not None:
        yield Finding(line, "a consumer in a group", *peers.HEARTBEATS)
    if package != CONFLUENT and names & {"key_deserializer", "value_deserializer"}:
        yield Finding(line, "exceptions of deserializers", *peers.DESERIALIZERS)


def of_option(package: str, name: str, value: object) -> Advice | None:
    """Return what to do about an option of a consumer of this package; None if it means the same here.

    ``value`` is the option's value if it is a literal, else any other object.
    """
    is_dotted = package == CONFLUENT
    if is_dotted:
        if name.startswith(confluent.REGISTRY_PREFIX):
            return confluent.REGISTRY
        if name in confluent.OPTIONS:
            return confluent.OPTIONS[name]
    else:
        peer = peers.PEERS[package]
        if name in peer.options:
            return peer.options[name]
        if name in peer.known:
            return None
    own = ALIASES.get(name, name.replace(".", "_")) if is_dotted else OLDER_NAMES.get(name, name)
    if own in OWN_OPTIONS and (is_dotted or "." not in name):
        return _of_value(name, own, value, is_dotted)
    build = ConsumerConfig.from_config if is_dotted else _from_keywords
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConfigurationWarning)
        try:
            build({name: value})
        except KafkaConfigurationError as error:
            return Advice("leave it out", str(error).removeprefix(f"{name} is refused: "))
    text = str(caught[0].message) if caught else ""
    return Advice("leave it out", text.removeprefix(f"{name} has no effect: ")) if text else None


def _from_keywords(config: dict[str, object]) -> ConsumerConfig:
    return ConsumerConfig.from_options(**config)


def _of_value(name: str, own: str, value: object, is_dotted: bool) -> Advice | None:
    """Return what is wrong with the value of an option that exists here."""
    kind = OWN_OPTIONS[own].kind
    if not isinstance(kind, _CHECKED) or not isinstance(value, (bool, int, float, str)):
        return None
    try:
        if is_dotted:
            value = translated(name, value)
            value = kind.from_text(value) if isinstance(value, str) else value
        kind.parse(value)
    except ValueError as error:
        return Advice("another value", f"{kind.show(value)}: {error}")
    return None
