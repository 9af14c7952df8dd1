"""Names, classes and objects of assignors in the broker's configuration."""

import pytest

from thinconsumer.broker import BrokerConfig
from thinconsumer.errors import IllegalArgumentError
from thinconsumer_testing.broker.group.consumer.assignors.registry import resolve, text_of


class Everything:
    """Assigns everything to the first member."""

    def __init__(self, name="everything"):
        self.name = name

    def assign(self, members, topics):
        return {min(members): [(topic, number) for topic, found in topics.items() for number in found]}


class Broken:
    """A class that cannot be called without arguments."""

    def __init__(self, name):
        self.name = name


PATH = f"{__name__}.Everything"


@pytest.mark.parametrize("setting", [Everything, Everything(), PATH])
def test_an_assignor_may_be_named_or_given(setting):
    found = resolve(["range", setting])
    assert list(found) == ["range", "everything"]
    assert isinstance(found["everything"], Everything)
    assert text_of(("range", setting)) == f"range,{PATH}"


def test_a_configuration_has_its_own_objects_and_keeps_them():
    first, second = (BrokerConfig.of({"group.consumer.assignors": f"uniform, {PATH}"}) for _ in "ab")
    assert first.server_assignors["everything"] is first.server_assignors["everything"]
    assert first.server_assignors["everything"] is not second.server_assignors["everything"]
    assert list(first.server_assignors) == ["uniform", "everything"]
    mine = Everything("mine")
    assert BrokerConfig.of({"group_consumer_assignors": [mine]}).server_assignors == {"mine": mine}
    assert "server_assignors" not in first.settings()


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("", "at least one"),
        ("sticky", "must be one of uniform, range, or the full name of a class"),
        ("uniform,uniform", "two of that name"),
        ([Everything("a"), Everything("a")], "two of that name"),
        ("no_such_module.Mine", "ModuleNotFoundError"),
        (f"{__name__}.Missing", "AttributeError"),
        (f"{__name__}.Broken", "without arguments"),
        ([Broken("b")], "a method assign"),
        ([Everything("")], "a name"),
        ([7], "a method assign"),
        ([Everything("uniform")], "cannot be called 'uniform'"),
        ([Everything("a,b")], "cannot be called 'a,b'"),
    ],
)
def test_invalid_assignors_are_refused_when_the_broker_is_configured(setting, reason):
    with pytest.raises(IllegalArgumentError, match=f"group.consumer.assignors.*{reason}"):
        BrokerConfig.of({"group.consumer.assignors": setting})
