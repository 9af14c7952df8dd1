"""What `import thinconsumer` and a new Consumer load: no module that only other users need, and no generated codec."""

import ast
import subprocess
import sys

import pytest

import thinconsumer

CODE = """
import sys
before = set(sys.modules)  # site-packages may import modules at the start of Python

def loaded():
    from thinconsumer.support.lazy_dataclass import generate_init
    from thinconsumer.wire import message, schema
    structs = [*schema.Struct.__subclasses__(), *message.Message.__subclasses__()]
    made = sum(vars(struct)["__init__"] is not generate_init for struct in structs)
    generated = len(message._DECODERS) + len(message._ENCODERS) + made
    return sorted(set(sys.modules) - before), generated

import thinconsumer
stages = [loaded()]
thinconsumer.Consumer(bootstrap_servers="localhost:9092")
stages.append(loaded())
thinconsumer.Consumer(bootstrap_servers="localhost:9092", group_id="g")
stages.append(loaded())
print(repr(stages))
"""
IMPORT, CONSUMER, GROUP = range(3)
#: The rooms of the package that every consumer needs.
ROOMS = {
    "_version", "config", "consumer", "driver", "engine", "errors", "failures", "fetch", "linear_hashing", "metrics",
    "network", "positions", "records", "sockets", "support", "types", "wire",
}  # fmt: skip
#: Modules of the standard library that take long to import, and that a consumer needs later or never.
LARGE = {
    "argparse", "ast", "asyncio", "concurrent", "ctypes", "dataclasses", "datetime", "decimal", "difflib", "email",
    "http", "importlib.metadata", "inspect", "ipaddress", "json", "multiprocessing", "pathlib", "pickle", "ssl",
    "subprocess", "tempfile", "unittest", "urllib", "uuid",
}  # fmt: skip


@pytest.fixture(scope="module")
def stages():
    run = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    return [({*modules}, generated) for modules, generated in ast.literal_eval(run.stdout)]


def rooms(modules):
    return {name.split(".")[1] for name in modules if name.startswith("thinconsumer.")}


def group_modules(modules):
    return {name.removeprefix("thinconsumer.group.") for name in modules if name.startswith("thinconsumer.group.")}


def test_only_the_rooms_of_a_consumer_are_loaded(stages):
    assert rooms(stages[IMPORT][0]) == ROOMS
    assert rooms(stages[CONSUMER][0]) == ROOMS
    assert rooms(stages[GROUP][0]) == ROOMS | {"assignors", "group"}


def test_the_group_is_loaded_by_the_first_consumer_with_a_group(stages):
    for stage in (IMPORT, CONSUMER):
        assert group_modules(stages[stage][0]) == set()
    assert {"group", "offsets.commits", "classic.member"} <= group_modules(stages[GROUP][0])
    assert "consumer.member" not in group_modules(stages[GROUP][0])


def test_messages_of_groups_are_loaded_with_the_group(stages):
    without = {name.removeprefix("thinconsumer.wire.") for name in stages[CONSUMER][0] if ".wire." in name}
    assert without == {
        "api_versions", "decoding", "encoding", "error_codes", "extensions", "fetch", "header",
        "list_offsets", "message", "metadata", "offset_for_leader_epoch", "primitives", "sasl", "schema",
        "source",
    }  # fmt: skip


@pytest.mark.parametrize("stage", [IMPORT, CONSUMER, GROUP])
def test_no_package_and_no_large_module_is_loaded(stages, stage):
    modules = stages[stage][0]
    tops = {name.split(".")[0] for name in modules}
    assert tops - set(sys.stdlib_module_names) == {"thinconsumer"}
    assert modules & LARGE == set()


@pytest.mark.parametrize("stage", [IMPORT, CONSUMER, GROUP])
def test_no_codec_is_generated(stages, stage):
    """Neither encoders and decoders nor the ``__init__`` of messages."""
    assert stages[stage][1] == 0


def test_names_for_groups_are_listed_and_unknown_ones_are_errors():
    assert set(thinconsumer.__all__) <= set(dir(thinconsumer))
    with pytest.raises(AttributeError, match="module 'thinconsumer' has no attribute 'Producer'"):
        thinconsumer.Producer  # noqa: B018
    with pytest.raises(AttributeError, match=r"module 'thinconsumer.assignors' has no attribute 'Stikcy'"):
        thinconsumer.assignors.Stikcy  # noqa: B018
