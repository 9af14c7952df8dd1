"""Streams are the same for the same seed and name, in every process, whatever others draw."""

import os
import subprocess
import sys

import pytest

from thinconsumer_testing.simulation.streams import Streams


def numbers(stream, count=5):
    return [stream.random() for _ in range(count)]


@pytest.mark.parametrize(("seed", "name"), [(2, "network"), (1, "networks"), (1, "actor/ann"), (11, "network")])
def test_other_seed_or_name_draws_other_values(seed, name):
    assert numbers(Streams(1)("network")) != numbers(Streams(seed)(name))


def test_draws_of_one_stream_do_not_change_another():
    streams = Streams(1)
    numbers(streams("new knob"), 1000)
    assert numbers(streams("network")) == numbers(Streams(1)("network"))


def test_values_do_not_depend_on_the_hash_seed():
    code = "from thinconsumer_testing.simulation.streams import Streams; print(Streams(7)('network').random())"
    code = code.replace("thinconsumer_testing.simulation.streams", "streams")
    folder = os.path.dirname(sys.modules[Streams.__module__].__file__)  # alone: the package takes long to import
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": folder},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {f"{Streams(7)('network').random()}\n"}
