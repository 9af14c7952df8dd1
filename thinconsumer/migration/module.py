"""What the syntax tree of one module says: which names are imported, what is bound to a variable, what a dict holds.

Nothing is run or imported. A variable is looked up in its function, then in those around it, then in the module; an
attribute of ``self`` in its class. All values that are bound to it anywhere in that scope count, in any order.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: Calls that return the dict that is their argument.
_COPIES = frozenset({"copy", "deepcopy", "MappingProxyType", "dict", "OrderedDict"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: Variables are followed through at most this many others: a bound for programs that were written to be slow to read.
DEPTH_MAX = 20

Scope = tuple[ast.AST, ...]


class Bound(NamedTuple):
    """One value of a variable: the expression, and how the variable gets it."""

    value: ast.expr
    scope: Scope
    how: str  #: ``value``, ``each`` (it is an item of the value) or ``annotation``


class Place(NamedTuple):
    """A node, and the classes and functions around it, outermost first; the first is the module."""

    node: ast.AST
    scope: Scope


@dataclass
class Settings:
    """What a dict, or the keywords of a call, hold: values by name, and the parts that are not in this module."""

    values: dict[str, ast.expr] = field(default_factory=dict)
    elsewhere: list[str] = field(default_factory=list)


class Module(ast.NodeVisitor):
    """The facts of one module. Raises SyntaxError, ValueError or RecursionError if the text is no Python."""

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)
        self.places: list[Place] = []
        self.imported: dict[str, str] = {}  #: By local name, the dotted name of what was imported under it.
        self.functions: dict[str, list[Place]] = {}
        self._bound: dict[tuple[ast.AST, str], list[Bound]] = {}
        self._returned: dict[str, list[Bound]] = {}
        self._updates: dict[tuple[ast.AST, str], list[Bound]] = {}
        self._scope: Scope = (self.tree,)
        self.visit(self.tree)

    # -- collecting

    def visit(self, node: ast.AST) -> None:
        self.places.append(Place(node, self._scope))
        super().visit(node)

    def generic_visit(self, node: ast.AST) -> None:
        is_scope = isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.Lambda))
        before = self._scope
        if is_scope:
            self._scope = (*before, node)
        super().generic_visit(node)
        self._scope = before

    def visit_Import(self, node: ast.Import) -> None:
        for name in node.names:
            top = name.name.partition(".")[0]
            self.imported[name.asname or top] = name.name if name.asname else top

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module and not node.level:
            for name in node.names:
                self.imported[name.asname or name.name] = f"{node.module}.{name.name}"

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.functions.setdefault(node.name, []).append(Place(node, self._scope))
        arguments = node.args
        inside = (*self._scope, node)
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if argument.annotation is not None:
                self._bound.setdefault((node, argument.arg), []).append(
                    Bound(argument.annotation, inside, "annotation")
                )
        self.generic_visit(node)

    visit_FunctionDef = visit_AsyncFunctionDef = _visit_function

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                keys: list[ast.expr | None] = [target.slice]
                self._update(target.value, ast.Dict(keys, [node.value]))
            self._bind(target, node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._bind(node.target, node.annotation, "annotation")
        if node.value is not None:
            self._bind(node.target, node.value)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._update(node.target, node.value)
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._bind(node.target, node.value)
        self.generic_visit(node)

    def _visit_for(self, node: ast.For | ast.AsyncFor | ast.comprehension) -> None:
        self._bind(node.target, node.iter, "each")
        self.generic_visit(node)

    visit_For = visit_AsyncFor = visit_comprehension = _visit_for

    def visit_withitem(self, node: ast.withitem) -> None:
        if node.optional_vars is not None:
            self._bind(node.optional_vars, node.context_expr)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("update", "setdefault"):
            given = ast.Call(ast.Name("dict"), node.args, node.keywords)
            if node.func.attr == "setdefault" and len(node.args) == 2:
                given = ast.Call(ast.Name("dict"), [ast.Dict([node.args[0]], node.args[1:])], [])
            self._update(node.func.value, given)
        self.generic_visit(node)

    def _bind(self, target: ast.expr, value: ast.expr, how: str = "value") -> None:
        key = self._key(target, self._scope)
        if key is not None:
            self._bound.setdefault(key, []).append(Bound(value, self._scope, how))

    def _update(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._updates.setdefault(self._home(target.id, self._scope), []).append(Bound(value, self._scope, "value"))
        elif (key := self._key(target, self._scope)) is not None:
            self._updates.setdefault(key, []).append(Bound(value, self._scope, "value"))

    # -- looking up

    @staticmethod
    def _key(target: ast.expr, scope: Scope) -> tuple[ast.AST, str] | None:
        """Return the scope and the name of a variable, or of an attribute of ``self``; None for anything else."""
        if isinstance(target, ast.Name):
            return scope[-1], target.id
        if (
            isinstance(target, ast.Attribute)
            and isinstance(target.value, ast.Name)
            and target.value.id in ("self", "cls")
        ):
            owner = next((one for one in reversed(scope) if isinstance(one, ast.ClassDef)), None)
            return None if owner is None else (owner, target.attr)
        return None

    def _home(self, name: str, scope: Scope) -> tuple[ast.AST, str]:
        """Return the innermost scope around that binds a variable; the own one if none does."""
        return next(((one, name) for one in reversed(scope) if (one, name) in self._bound), (scope[-1], name))

    def bound(self, target: ast.expr, scope: Scope) -> list[Bound]:
        """Return the values of a variable or of an attribute of ``self``; none if it is not bound in this module."""
        key = self._home(target.id, scope) if isinstance(target, ast.Name) else self._key(target, scope)
        return [] if key is None else self._bound.get(key, [])

    def qualified(self, node: ast.AST | None) -> str:
        """Return the dotted name of what was imported and is named here, such as ``kafka.KafkaConsumer``; else ""."""
        if isinstance(node, ast.Name):
            return self.imported.get(node.id, "")
        if isinstance(node, ast.Attribute) and (owner := self.qualified(node.value)):
            return f"{owner}.{node.attr}"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            return self.imported.get(node.value, "")  # an annotation in quotes
        return ""

    def returned(self, name: str) -> list[Bound]:
        """Return what the functions and methods of this name return."""
        if name not in self._returned:
            self._returned[name] = [
                Bound(node.value, (*scope, function), "value")
                for function, scope in self.functions.get(name, ())
                for node in ast.walk(function)
                if isinstance(node, (ast.Return, ast.Yield)) and node.value is not None
            ]
        return self._returned[name]

    def settings(self, call: ast.Call, scope: Scope, *, from_dict: bool) -> Settings:
        """Return what a constructor is given: by keywords, and with ``from_dict`` by the dict that is an argument."""
        found, seen = Settings(), set[ast.AST]()
        for argument in call.args[:1] if from_dict else ():
            self._read(argument, scope, found, seen)
        for keyword in call.keywords:
            if keyword.arg is None or (from_dict and keyword.arg in ("conf", "config")):
                self._read(keyword.value, scope, found, seen)
            else:
                found.values[keyword.arg] = keyword.value
        return found

    def _read(self, node: ast.expr, scope: Scope, into: Settings, seen: set[ast.AST], depth: int = 0) -> None:
        """Add what a dict holds that ``node`` is, names or computes; note it as elsewhere if that is not known."""
        if node in seen or depth > DEPTH_MAX or (isinstance(node, ast.Constant) and node.value is None):
            return
        seen.add(node)
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values):
                if key is None:
                    self._read(value, scope, into, seen, depth + 1)
                elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                    into.values[key.value] = value
                else:
                    into.elsewhere.append(ast.unparse(key))
            return
        parts = self._parts(node, scope, into, depth)
        if parts is None:
            into.elsewhere.append(ast.unparse(node))
        for part in parts or ():
            self._read(part.value, part.scope, into, seen, depth + 1)

    def _parts(self, node: ast.expr, scope: Scope, into: Settings, depth: int) -> list[Bound] | None:
        """Return the dicts that a dict consists of, None if they are not known; add the keywords of ``dict(...)``."""

        def here(*values: ast.expr) -> list[Bound]:
            return [Bound(one, scope, "value") for one in values]

        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name not in _COPIES:
                return self.returned(name) or None
            into.values.update({one.arg: one.value for one in node.keywords if one.arg is not None})
            is_method = isinstance(node.func, ast.Attribute) and not node.args
            inner = [node.func.value] if is_method and isinstance(node.func, ast.Attribute) else node.args
            return here(*inner, *(one.value for one in node.keywords if one.arg is None))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return here(node.left, node.right)
        if isinstance(node, ast.BoolOp):
            return here(*node.values)
        if isinstance(node, ast.IfExp):
            return here(node.body, node.orelse)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            outer = Settings()
            self._read(node.value, scope, outer, set(), depth + 1)
            item = outer.values.get(str(node.slice.value))
            return None if item is None else here(item)
        found = [one for one in self.bound(node, scope) if one.how == "value"]
        key = self._home(node.id, scope) if isinstance(node, ast.Name) else self._key(node, scope)
        return found + self._updates.get(key, []) if found and key is not None else None


def literal(node: ast.expr) -> Any:
    """Return the value of a constant, with a sign or without; an object that equals nothing else for anything else."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return object()
