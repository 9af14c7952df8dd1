"""Each kind of request fault comes at its rate, for the requests that it suits."""

from types import SimpleNamespace

import pytest
from lab.knobs import Knobs
from lab.request_faults import GROUP_ERRORS, GroupErrors, RequestFaults

from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer_testing.broker.faults import Delay, Disconnect, Reply, Silence
from thinconsumer_testing.broker.wire.requests import REQUESTS
from thinconsumer_testing.simulation import Simulation, World

KINDS = {"error_rate": Reply, "delay_rate": Delay, "silence_rate": Silence, "disconnect_rate": Disconnect}


def rule(world=None, **rates):
    """Return a rule with these rates and no others."""
    knobs = Knobs.draw(1)
    for name in KINDS:
        setattr(knobs, name, rates.get(name, 0.0))
    return RequestFaults(world or World(1), knobs)


def call(request=FetchRequest):
    """Return a call with the attributes that rules read."""
    return SimpleNamespace(request=request(), node=SimpleNamespace(node_id=3))


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_each_rate_causes_its_own_fault_only(name, kind):
    always = rule(**{name: 1.0})
    assert always.is_needed
    assert {type(always(call())) for _ in range(50)} == {kind} and always.count == 50


def test_api_versions_is_never_delayed_but_may_stay_unanswered():
    assert rule(delay_rate=1.0)(call(ApiVersionsRequest)) is None
    assert isinstance(rule(silence_rate=1.0)(call(ApiVersionsRequest)), Silence)


def test_cluster_applies_the_rule():
    sim = Simulation(1, topics={"a": 1})
    silent = rule(sim.world, silence_rate=1.0)
    sim.cluster.on(None, silent)
    sim.produce("a", 0, [b"x"])
    consumer = sim.consumer({"a": [0]}, auto_offset_reset="earliest")
    sim.run_for(2)
    assert silent.count > 0 and consumer.records == []
    sim.cluster.rules.clear()
    sim.run_until(lambda: consumer.records, 60)


# -- errors of group requests


def group_call(api_key, version=7):
    request = SimpleNamespace(API_KEY=api_key)
    return SimpleNamespace(request=request, version=version, client_id="ann", node=SimpleNamespace(node_id=1))


@pytest.mark.parametrize("api_key", sorted(GROUP_ERRORS))
def test_each_group_api_gets_all_of_its_errors(api_key):
    rule = GroupErrors(World(1), 1.0)
    actions = [rule(group_call(api_key)) for _ in range(100)]
    assert all(isinstance(action, Reply) for action in actions) and rule.count == 100
    assert {action.with_ for action in actions} == set(map(int, GROUP_ERRORS[api_key]))
    assert REQUESTS[api_key]
