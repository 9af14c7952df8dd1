"""aiokafka's keywords and calls all exist; what has no meaning here is explained."""

import asyncio
import inspect
import re
import warnings

import pytest

from thinconsumer import KafkaConfigurationError, KafkaError
from thinconsumer.compat import aiokafka as compat
from thinconsumer.compat.aiokafka import AIOKafkaConsumer
from thinconsumer.compat.aiokafka.options import Tokens, translate
from thinconsumer.compat.patterns import beginning
from thinconsumer.config.build import ConfigurationWarning


def run(main):
    return asyncio.run(asyncio.wait_for(main(), 10))


def made(**options):
    """Return the configuration of a consumer that is made with these keywords."""

    async def main():
        consumer = AIOKafkaConsumer(**options)
        await consumer.stop()
        return consumer._consumer.config

    return run(main)


def test_each_keyword_of_aiokafka_is_taken_with_its_default():
    aiokafka = pytest.importorskip("aiokafka")
    parameters = list(inspect.signature(aiokafka.AIOKafkaConsumer.__init__).parameters.values())[2:]
    defaults = {p.name: p.default for p in parameters if p.name != "client_id"}
    assert len(defaults) > 30
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explicit = made(**defaults, group_id="billing") if "group_id" not in defaults else made(**defaults)
        implicit = made()
    shared = [name for name in defaults if hasattr(implicit, name)]
    assert len(shared) > 25
    for name in shared:
        if name not in ("partition_assignment_strategy", "session_timeout_ms"):  # passed on only with a group
            assert getattr(explicit, name) == getattr(implicit, name), name
            if isinstance(defaults[name], int) and name != "consumer_timeout_ms":
                assert getattr(implicit, name) == defaults[name], name
    grouped = made(group_id="billing")
    assert (grouped.session_timeout_ms, grouped.default_api_timeout_ms) == (10000, 40000)
    assert grouped.allow_auto_create_topics


def test_each_call_of_aiokafka_exists_with_its_arguments():
    aiokafka = pytest.importorskip("aiokafka")
    names = [name for name, found in vars(aiokafka.AIOKafkaConsumer).items() if not name.startswith("_")]
    assert len(names) > 25
    for name in names:
        theirs, ours = getattr(aiokafka.AIOKafkaConsumer, name), getattr(AIOKafkaConsumer, name)
        assert list(inspect.signature(theirs).parameters) == list(inspect.signature(ours).parameters), name
        assert inspect.iscoroutinefunction(theirs) == inspect.iscoroutinefunction(ours), name


def test_the_listener_is_aiokafkas():
    abc = pytest.importorskip("aiokafka.abc")
    assert compat.ConsumerRebalanceListener is abc.ConsumerRebalanceListener


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"rebalance_timeout_ms": 5000}, "max_poll_interval_ms"),
        ({"consumer_timeout_ms": 10}, "consumer_timeout_ms"),
        ({"api_version": "0.10"}, "negotiated"),
    ],
)
def test_keywords_without_effect_cause_a_warning(option, words):
    with pytest.warns(ConfigurationWarning, match=words):
        made(**option)


def test_wrong_values_are_errors():
    for wrong in ({"max_poll_records": 0}, {"isolation_level": "READ_CCC"}, {"security_protocol": "SOME"}, {"nope": 1}):
        with pytest.raises(ValueError):
            made(**wrong)
    with pytest.raises(KafkaConfigurationError) as caught:
        made(security_protocol="SASL_PLAINTEXT")
    aiokafka = pytest.importorskip("aiokafka")
    assert isinstance(caught.value, aiokafka.errors.KafkaError)


def test_assignors_of_aiokafka_select_ours():
    assignors = pytest.importorskip("aiokafka.coordinator.assignors.range")
    sticky = pytest.importorskip("aiokafka.coordinator.assignors.sticky.sticky_assignor")
    given = (assignors.RangePartitionAssignor, sticky.StickyPartitionAssignor, "roundrobin")
    assert translate({"partition_assignment_strategy": given, "group_id": "a"})["partition_assignment_strategy"] == (
        "range",
        "sticky",
        "roundrobin",
    )

    class Own(assignors.RangePartitionAssignor):
        name = "own"

    with pytest.raises(KafkaConfigurationError, match="PartitionAssignor"):
        translate({"partition_assignment_strategy": [Own]})


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("orders", "orders-1", True),
        ("orders$", "orders-1", False),
        ("a|b", "bc", True),
        ("(?i)ORDERS", "orders", True),
        (re.compile("ORDERS", re.IGNORECASE), "orders-2", True),
        ("orders", "my-orders", False),
    ],
)
def test_a_pattern_has_to_match_the_beginning(pattern, name, matches):
    assert bool(beginning(pattern).fullmatch(name)) is matches


def test_tokens_are_fetched_in_the_loop():
    class Provider:
        count = 0

        async def token(self):
            await asyncio.sleep(0)
            self.count += 1
            if self.count == 2:
                raise OSError("no token today")
            return f"token-{self.count}"

    async def main():
        tokens = Tokens(Provider())
        assert "token-" not in repr(tokens)
        await tokens.fetch()
        found = [tokens.token()]
        while len(found) < 2:
            with pytest.raises(KafkaError):
                found.append(tokens.token())
            await asyncio.sleep(0.01)
            if tokens._fetched:
                found.append(tokens.token())
        return found

    assert run(main) == ["token-1", "token-3"]


def test_without_a_group_no_option_of_groups_is_passed_on():
    assert "session_timeout_ms" not in translate({})
    assert translate({"group_id": "a"})["session_timeout_ms"] == 10000
    assert "partition_assignment_strategy" not in translate({"group_id": "a", "group_protocol": "consumer"})
