"""The tool that leaves out calls of the schedule: which calls it finds, and what becomes of them."""

import ast
import sys

import pytest
from omissions import Conditions, is_kept, is_scheduling


@pytest.mark.parametrize(
    ("call", "is_found"),
    [
        ("self._alarm.set(now + 1)", True),
        ("self.sockets.set(fd, mask)", False),
        ("alarm.set_earlier(at)", True),
        ("self._agenda.join(name)", True),
        ("', '.join(names)", False),
        ("agenda.touch()", True),
        ("partition.report_change()", True),
        ("touch()", False),
    ],
)
def test_calls_that_make_something_due_are_found(call, is_found):
    assert is_scheduling(ast.parse(call, mode="eval").body) is is_found


def test_one_call_can_be_left_out_with_its_arguments(monkeypatch):
    source = "class A:\n    def f(self, agenda, now):\n        agenda.touch(now())\n        agenda.touch(now())\n"
    tool = sys.modules[is_kept.__module__]
    conditions = Conditions(tool.PACKAGE / "m.py")
    tree = conditions.visit(ast.parse(source))
    assert conditions.names == ["m.py A.f: agenda.touch", "m.py A.f: agenda.touch #2"]
    names = {"is_kept": is_kept}
    exec(compile(tree, "m.py", "exec"), names)
    calls = []
    agenda = type("Agenda", (), {"touch": lambda self, at: calls.append(at)})()
    monkeypatch.setattr(tool, "passed", set())
    names["A"]().f(agenda, iter(range(9)).__next__)
    monkeypatch.setattr(tool, "omitted", "m.py A.f: agenda.touch")
    names["A"]().f(agenda, iter(range(9)).__next__)
    assert calls == [0, 1, 0]
    assert tool.passed == set(conditions.names)
