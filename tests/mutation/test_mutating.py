"""The operators of the mutation tool on small modules."""

import pytest
from mutating import enumerations, mutants_of

ENUM = "class State(enum.Enum):\n    A = 1\n    B = 2\n"


def changes(source, operator=None):
    """Return what becomes of a module under each mutant."""
    found = mutants_of("m.py", source, enumerations([ENUM]))
    return [mutant.applied(source) for mutant in found if operator in (None, mutant.operator)]


def bodies(statement, operator):
    """Return what becomes of one statement in a function."""
    head = "def f(self):\n    "
    return [source.removeprefix(head) for source in changes(head + statement, operator)]


@pytest.mark.parametrize(
    ("operator", "before", "after"),
    [
        ("boundary", "a(1 <= b < 2)", ["a(1 < b < 2)", "a(1 <= b <= 2)"]),
        ("negate", "a((b) is not None)", ["a((b) is None)"]),
        ("negate", "a(b not in c)", ["a(b in c)"]),
        ("negate", "a(b > c)", ["a(b <= c)"]),
        ("connective", "a(b and c and d)", ["a(b or c and d)", "a(b and c or d)"]),
        ("connective", "a(b  # this and that\n    or c)", ["a(b  # this and that\n    and c)"]),
        ("drop not", "a(not b.c)", ["a((b.c))"]),
        ("swap branches", "if a or b: c()", ["if not (a or b): c()"]),
        ("swap branches", "a(b if c else d)", ["a(b if not (c) else d)"]),
        ("swap branches", "a([b for b in c if b])", ["a([b for b in c if not (b)])"]),
        ("constant", "a(1, 0.5)", ["a(0, 0.5)", "a(2, 0.5)", "a(1, -0.5)", "a(1, 1.5)"]),
        ("constant", "a(False)", ["a(True)"]),
        ("constant", "a: Literal[1] = 0", ["a: Literal[1] = 1"]),
        ("arithmetic", "a(b + c)", ["a(b - c)"]),
        ("arithmetic", "a += 1", ["a -= 1"]),
        ("arithmetic", "a('b' + c)", []),
        ("extreme", "a(min(b, c))", ["a(max(b, c))"]),
        ("return None", "return a", ["return None"]),
        ("return None", "return None", []),
        ("delete", "a.b()", ["pass"]),
        ("delete", "self.a = b", ["pass"]),
        ("delete", "a = b", []),
        ("delete", "raise a", ["pass"]),
        ("state", "a(State.A, State.B)", ["a(State.B, State.B)", "a(State.A, State.A)"]),
    ],
)  # fmt: skip
def test_each_operator_changes_what_it_says(operator, before, after):
    assert bodies(before, operator) == after


@pytest.mark.parametrize(
    "source",
    [
        '"""1 and 2."""\nimport a\nA = 1 + 2\n',
        "def __repr__(self):\n    return a and b\n",
        "def f(a: Literal[1] = 2) -> int:\n    log.info('a', 1)\n    assert a > 1\n    b = f'{a > 1}'\n",
        "def __init__(self):\n    self.a = b\n",
        "if TYPE_CHECKING:\n    def f(): return 1\n",
    ],
)
def test_text_types_and_first_assignments_stay(source):
    assert changes(source) == []


def test_state_tables_change_by_their_aliases():
    table = "_S = State\nTABLE = {_S.A: {1: _S.B}}\n"
    assert changes(table) == [table.replace("{_S.A:", "{_S.B:"), table.replace("_S.B", "_S.A")]


def test_a_mutant_names_its_function_and_the_lines_of_its_statement():
    source = "class A:\n    def f(self):\n        if (\n            a\n            and b\n        ):\n            c()\n"
    [mutant] = [one for one in mutants_of("m.py", source, {}) if one.operator == "connective"]
    assert mutant.name == "m.py A.f: connective: and -> or"
    assert (mutant.line, mutant.lines) == (5, (3, 6))


def test_equal_changes_of_one_function_are_numbered():
    found = mutants_of("m.py", "def f():\n    a(b is c)\n    a(d is e)\n", {})
    names = [mutant.name for mutant in found if mutant.operator == "negate"]
    assert names == ["m.py f: negate: is -> is not", "m.py f: negate: is -> is not #2"]
