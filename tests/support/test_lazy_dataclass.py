"""Classes of the lazy decorator behave as those of ``dataclasses``."""

import copy
import dataclasses
import pickle
from pprint import pformat

import pytest

from thinconsumer.support import lazy_dataclass
from thinconsumer.support.lazy_dataclass import dataclass, field


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    note: str = field(default="secret", repr=False, compare=False)


@dataclass(slots=True)
class Bag:
    name: str
    things: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Larger(Bag):
    size: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Handle:
    number: int


@dataclass(frozen=True, slots=True)
class Empty:
    """Without fields."""


class Plain(Bag):
    def __init__(self):
        super().__init__("plain")


def test_constructors_take_fields_by_position_and_name_and_make_defaults():
    assert (Point(1).x, Point(1).y, Point(x=3, y=4).y) == (1, 2, 4)
    one, other = Bag("a"), Bag("b")
    one.things.append(1)
    assert other.things == []
    assert Bag("c", [5]).things == [5]
    assert Larger("d", size=3).size == 3
    assert Plain().name == "plain"
    assert not hasattr(one, "__dict__")


def test_wrong_arguments_name_the_class():
    with pytest.raises(TypeError, match=r"Point.__init__\(\) missing 1 required positional argument: 'x'"):
        Point()
    with pytest.raises(TypeError, match=r"Point.__init__\(\) got an unexpected keyword argument 'z'"):
        Point(1, z=2)


def test_equal_fields_are_equal_and_hash_alike():
    assert Point(1) == Point(1, note="other") != Point(2)
    assert hash(Point(1)) == hash(Point(1, note="other")) != hash(Point(2))
    assert Point(1) != (1, 2)
    assert Bag("a") == Bag("a") != Larger("a")
    assert Handle(1) != Handle(1)
    assert Empty() == Empty()
    assert {Handle(1), Empty()}
    with pytest.raises(TypeError, match="unhashable"):
        hash(Bag("a"))


def test_reprs_leave_out_what_is_hidden():
    assert repr(Point(1)) == "Point(x=1, y=2)"
    assert repr(Larger("a")) == "Larger(name='a', things=[], size=0)"
    assert "object at" in repr(Handle(1))


def test_frozen_instances_cannot_be_changed_but_copied():
    point = Point(1, note="n")
    with pytest.raises(dataclasses.FrozenInstanceError, match="'x'"):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="'x'"):
        del point.x
    for other in (pickle.loads(pickle.dumps(point)), copy.copy(point), copy.deepcopy(point)):
        assert (other, other.note) == (point, "n")
    assert copy.deepcopy(Larger("a", [1])) == Larger("a", [1])


def test_what_dataclasses_read_is_created_once_for_each_class():
    """Thousands of structs in a response are read one by one."""
    assert dataclasses.fields(Larger("a"))[0] is dataclasses.fields(Larger("b"))[0]
    assert len(dataclasses.fields(Larger("a"))) > len(dataclasses.fields(Larger.__base__))


def test_functions_of_dataclasses_accept_them():
    assert dataclasses.is_dataclass(Point)
    assert [entry.name for entry in dataclasses.fields(Larger("a"))] == ["name", "things", "size"]
    assert dataclasses.replace(Point(1, note="n"), y=3).note == "n"
    assert dataclasses.asdict(Bag("a", [1])) == {"name": "a", "things": [1]}


def test_pprint_shows_the_repr():
    assert pformat(Point(1), width=5) == "Point(x=1, y=2)"
    assert pformat(Larger("a"), width=5) == "Larger(name='a', things=[], size=0)"
    assert "object at" in pformat(Handle(1), width=5)


def test_patterns_match_by_position():
    match Point(1, 5):
        case Point(x, y):
            assert (x, y) == (1, 5)


def test_methods_are_generated_once():
    @dataclass(frozen=True, slots=True)
    class Fresh:
        a: int = 0

    assert vars(Fresh)["__init__"] is lazy_dataclass.generate_init
    assert Fresh() == Fresh(0)
    made = vars(Fresh)["__init__"], vars(Fresh)["__eq__"]
    assert Fresh() == Fresh(0)
    assert (vars(Fresh)["__init__"], vars(Fresh)["__eq__"]) == made


def test_a_constructor_that_another_thread_has_generated_meanwhile_is_called():
    """Two threads make the first two instances: both have found the function that generates the constructor."""

    @dataclass(slots=True)
    class Fresh:
        value: int

    class Heir(Fresh):
        __slots__ = ()

        def __init__(self, value):
            lazy_dataclass.generate_init(self, value)

    assert Fresh(1).value == 1
    late = Fresh.__new__(Fresh)
    lazy_dataclass.generate_init(late, 2)
    assert late.value == 2
    assert Heir(3).value == 3
