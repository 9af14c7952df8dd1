"""The embedded broker answers as Kafka did when ``tests/real/test_differential.py`` recorded its answers."""

import pytest
from differential.conversations import ALL_CASES, compare, conversation, in_memory, names, recorded


@pytest.mark.parametrize(("name", "plan"), ALL_CASES)
def test_answers_are_those_of_kafka(name: str, plan: str):
    compare(recorded(name, plan), conversation(in_memory(name, plan, *names()), name))
