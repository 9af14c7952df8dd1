"""Which classes and variables of a module are consumers of another library, and which are its messages."""

from __future__ import annotations

import ast
from functools import cache

from . import confluent, peers
from .module import Module, Place, Scope

CONFLUENT = "confluent_kafka"
#: Variables that hold a message in most programs: so named parameters count if nothing else says what they are.
_MESSAGES = frozenset({"msg", "message"})
#: A list of messages is followed through at most this many variables, a class through this many base classes.
_LISTS_MAX, _BASES_MAX = 2, 8
#: Functions that return, or wrap, their first argument.
_WRAPPERS = frozenset({"closing", "aclosing", "enter_context", "enter_async_context"})
LISTENER = "ConsumerRebalanceListener"
#: Names that programs with other clients of confluent-kafka import, too.
_SHARED = frozenset({"KafkaError", "KafkaException", "TopicPartition", "Message", "SerializerError"})
#: Clients of confluent-kafka that raise the same errors.
_OTHER_CLIENTS = frozenset({"Producer", "SerializingProducer", "AdminClient", "AvroProducer", "AIOProducer"})


def ends(qualified: str) -> tuple[str, str]:
    """Return the package and the last part of a dotted name."""
    return qualified.partition(".")[0], qualified.rpartition(".")[2]


class Uses:
    """The classes, variables and parameters of one module that are consumers or messages of other libraries."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.uses = cache(self._uses)
        #: Classes of this module that derive from a consumer, with the consumer's name.
        self.derived: dict[str, str] = {}
        self._derive()
        #: The variables that hold consumers, and that hold messages: unannotated parameters of these names do, too.
        self._names: dict[str, str] = {}
        self._message_names = set(_MESSAGES)
        self._consumers: dict[ast.AST, str] = {}
        self._messages: dict[ast.AST, bool] = {}
        self._name_variables()
        self._consumers.clear()  # some depend on the names
        self._messages.clear()

    def class_of(self, node: ast.AST | None) -> str:
        """Return the consumer class that is named here, such as ``kafka.KafkaConsumer``, or ""."""
        if isinstance(node, (ast.Name, ast.Attribute)):
            own = node.id if isinstance(node, ast.Name) else node.attr
            if own in self.derived:
                return self.derived[own]
        qualified = self.module.qualified(node)
        package, name = ends(qualified)
        is_consumer = (
            name in confluent.CONSUMERS
            if package == CONFLUENT
            else package in peers.PEERS and name == peers.PEERS[package].consumer
        )
        return f"{package}.{name}" if is_consumer else ""

    def _derive(self) -> None:
        classes = [node for node, _ in self.module.places if isinstance(node, ast.ClassDef)]
        for _ in range(_BASES_MAX):
            before = len(self.derived)
            for node in classes:
                found = next(filter(None, map(self.class_of, node.bases)), "")
                if found and node.name not in self.derived:
                    self.derived[node.name] = found
            if len(self.derived) == before:
                return

    def _name_variables(self) -> None:
        for node, scope in self.module.places:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                if found := self.consumer(node, scope):
                    self._names[node.id] = found
                elif self.message(node, scope):
                    self._message_names.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                self._names.update({node.attr: found} if (found := self.consumer(node, scope)) else {})

    def consumer(self, node: ast.AST, scope: Scope) -> str:
        """Return the class of the consumer that an expression is, or ""."""
        if node not in self._consumers:
            self._consumers[node] = ""  # until it is known: a variable may be bound to itself
            self._consumers[node] = self._find_consumer(node, scope)
        return self._consumers[node]

    def _find_consumer(self, node: ast.AST, scope: Scope) -> str:
        if isinstance(node, ast.Await):
            return self.consumer(node.value, scope)
        if isinstance(node, ast.Call):
            if found := self.class_of(node.func):
                return found
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in _WRAPPERS and node.args:
                return self.consumer(node.args[0], scope)
            found_in = (self.consumer(one.value, one.scope) for one in self.module.returned(name))
            return next(filter(None, found_in), "")
        if isinstance(node, ast.Name) and node.id == "self":
            classes = (one.name for one in reversed(scope) if isinstance(one, ast.ClassDef))
            return next((self.derived[name] for name in classes if name in self.derived), "")
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return ""
        bound = self.module.bound(node, scope)
        for one in bound:
            if one.how == "annotation" and (found := self._annotated(one.value)):
                return found
            if one.how == "value" and (found := self.consumer(one.value, one.scope)):
                return found
        name = node.id if isinstance(node, ast.Name) else node.attr
        if isinstance(node, ast.Attribute) and not bound:  # a property
            bound = self.module.returned(name)
            if found := next(filter(None, (self.consumer(one.value, one.scope) for one in bound)), ""):
                return found
        return "" if bound else self._names.get(name, "")

    def _annotated(self, annotation: ast.expr) -> str:
        """Return the consumer class in an annotation, also in ``X | None`` and ``Optional[X]``."""
        return next(filter(None, map(self.class_of, ast.walk(annotation))), "")

    def message(self, node: ast.AST, scope: Scope) -> bool:
        """Return whether an expression is a message of confluent-kafka."""
        if node not in self._messages:
            self._messages[node] = False  # until it is known
            self._messages[node] = self._is_message(node, scope)
        return self._messages[node]

    def _is_message(self, node: ast.AST, scope: Scope) -> bool:
        if isinstance(node, ast.Await):
            return self.message(node.value, scope)
        if isinstance(node, ast.Call):
            return self.called(node, scope) == (CONFLUENT, "poll")
        if not isinstance(node, ast.Name):
            return False
        bound = self.module.bound(node, scope)
        for one in bound:
            if one.how == "annotation" and ends(self.module.qualified(one.value)) == (CONFLUENT, "Message"):
                return self.uses(CONFLUENT)
            if one.how == "value" and self.message(one.value, one.scope):
                return True
            if one.how == "each" and self._consumed(one.value, one.scope, 0):
                return True
        is_named = not bound and node.id in self._message_names
        return is_named and self.uses(CONFLUENT) and not _is_delivery(node.id, scope)

    def _consumed(self, node: ast.AST, scope: Scope, depth: int) -> bool:
        """Return whether an expression is a list of messages."""
        if isinstance(node, ast.Await):
            return self._consumed(node.value, scope, depth)
        if isinstance(node, ast.Call):
            return self.called(node, scope) == (CONFLUENT, "consume")
        bound = self.module.bound(node, scope) if isinstance(node, ast.Name) and depth < _LISTS_MAX else ()
        return any(one.how == "value" and self._consumed(one.value, one.scope, depth + 1) for one in bound)

    def called(self, node: ast.Call, scope: Scope) -> tuple[str, str]:
        """Return the package of the consumer whose method is called, and the method; "", "" for other calls."""
        if not isinstance(node.func, ast.Attribute):
            return "", ""
        package = ends(self.consumer(node.func.value, scope))[0]
        return (package, node.func.attr) if package else ("", "")

    def _uses(self, package: str) -> bool:
        """Return whether the module has a consumer of this package, or names that only consumers need."""
        own = {ends(name)[1] for name in self.module.imported.values() if ends(name)[0] == package}
        if package == CONFLUENT:
            wanted = {name for name, advice in confluent.NAMES.items() if advice is not None} - _SHARED
        else:
            wanted = {peers.PEERS[package].consumer, LISTENER, *peers.PEERS[package].advice}
        named = {
            ends(self.module.qualified(node))[1]
            for node, _ in self.module.places
            if isinstance(node, ast.Attribute) and ends(self.module.qualified(node))[0] == package
        }
        return bool((own | named) & wanted) or (
            package == CONFLUENT and any(map(self._takes_message, self.module.places))
        )

    def _takes_message(self, place: Place) -> bool:
        """Return whether this is the parameter of a function that handles messages which were read."""
        node, scope = place
        is_message = isinstance(node, ast.arg) and ends(self.module.qualified(node.annotation)) == (
            CONFLUENT,
            "Message",
        )
        return is_message and isinstance(node, ast.arg) and not _is_delivery(node.arg, scope)

    def has_other_clients(self) -> bool:
        """Return whether the module has another client of confluent-kafka than a consumer."""
        names = {ends(name)[1] for name in self.module.imported.values() if ends(name)[0] == CONFLUENT}
        return bool(names & _OTHER_CLIENTS)

    def initialized(self, node: ast.Call, scope: Scope) -> str:
        """Return the consumer class whose constructor ``super().__init__(...)`` or ``Class.__init__(self, ...)`` is."""
        owner = node.func.value if isinstance(node.func, ast.Attribute) else node
        if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "super":
            return self.consumer(ast.Name("self"), scope)
        return ""


def _is_delivery(parameter: str, scope: Scope) -> bool:
    """Return whether a message is the parameter of a producer's callback, which takes an error besides."""
    for function in reversed(scope):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            names = [one.arg for one in function.args.args]
            if parameter in names:
                return any(name.startswith(("err", "_err")) for name in names)
    return False
