"""Each kind of request fault comes at its rate, for the requests that it suits."""

from collections import Counter
from types import SimpleNamespace

import pytest
from lab.knobs import Knobs
from lab.request_faults import ERRORS, GROUP_ERRORS, GroupErrors, RequestFaults

from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.apis import REQUESTS
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.list_offsets import ListOffsetsRequest
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer.wire.offset_fetch import OffsetFetchRequest
from thinconsumer_testing.broker.faults import Delay, Disconnect, Reply, Silence
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


def test_without_rates_nothing_is_mishandled():
    quiet = rule()
    assert not quiet.is_needed
    assert [quiet(call()) for _ in range(50)] == [None] * 50 and quiet.count == 0


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_each_rate_causes_its_own_fault_only(name, kind):
    always = rule(**{name: 1.0})
    assert always.is_needed
    assert {type(always(call())) for _ in range(50)} == {kind} and always.count == 50


def test_rates_are_shares_of_all_requests():
    mixed = rule(error_rate=0.1, delay_rate=0.2, silence_rate=0.3, disconnect_rate=0.1)
    found = Counter(type(mixed(call())) for _ in range(2000))
    for kind, share in ((Reply, 0.1), (Delay, 0.2), (Silence, 0.3), (Disconnect, 0.1), (type(None), 0.3)):
        assert abs(found[kind] / 2000 - share) < 0.04, kind
    assert mixed.count == 2000 - found[type(None)]


@pytest.mark.parametrize("request_class", [FetchRequest, ListOffsetsRequest, MetadataRequest])
def test_every_error_of_an_api_is_returned_and_no_other(request_class):
    refusing = rule(error_rate=1.0)
    codes = {refusing(call(request_class)).with_ for _ in range(200)}
    assert codes == {int(code) for code in ERRORS[request_class.API_KEY]}
    assert int(Code.NONE) not in codes


def test_requests_without_a_retriable_error_are_not_rejected():
    refusing = rule(error_rate=1.0)
    assert [refusing(call(FindCoordinatorRequest)) for _ in range(20)] == [None] * 20 and refusing.count == 0


def test_api_versions_is_never_delayed_but_may_stay_unanswered():
    assert rule(delay_rate=1.0)(call(ApiVersionsRequest)) is None
    assert isinstance(rule(silence_rate=1.0)(call(ApiVersionsRequest)), Silence)


def test_each_action_is_drawn_in_all_its_forms():
    late = [rule_(call()) for rule_ in [rule(delay_rate=1.0)] for _ in range(200)]
    assert all(0.01 <= delay.seconds <= 3.0 for delay in late) and max(d.seconds for d in late) > 2
    mute = rule(silence_rate=1.0)
    assert {mute(call()).after for _ in range(50)} == {True, False}
    rude = rule(disconnect_rate=1.0)
    assert len({(found.after, found.reset) for found in (rude(call()) for _ in range(100))}) == 4


def test_trace_names_the_fault_and_the_request():
    world = World(1)
    rule(world, silence_rate=1.0)(call())
    (line,) = world.trace
    assert (line.actor, line.event) == ("node 3", "mishandles") and "Fetch: Silence" in str(line)


def test_the_same_seed_mishandles_the_same_requests():
    def story(seed):
        drawn = rule(World(seed), error_rate=0.3, delay_rate=0.3, disconnect_rate=0.1)
        return [drawn(call()) for _ in range(60)]

    assert story(1) == story(1)
    assert story(1) != story(2)


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


def test_group_errors_come_for_group_requests_only():
    rule = GroupErrors(World(1), 1.0)
    assert rule(group_call(FetchRequest.API_KEY)) is None and rule.count == 0


@pytest.mark.parametrize("api_key", sorted(GROUP_ERRORS))
def test_each_group_api_gets_all_of_its_errors(api_key):
    rule = GroupErrors(World(1), 1.0)
    actions = [rule(group_call(api_key)) for _ in range(100)]
    assert all(isinstance(action, Reply) for action in actions) and rule.count == 100
    assert {action.with_ for action in actions} == set(map(int, GROUP_ERRORS[api_key]))
    assert REQUESTS[api_key]


def test_group_errors_come_at_their_rate():
    rule = GroupErrors(World(1), 0.2)
    for _ in range(500):
        rule(group_call(HeartbeatRequest.API_KEY))
    assert 60 < rule.count < 140


def test_unstable_offset_commit_comes_from_version_7_on():
    rule = GroupErrors(World(1), 1.0)
    actions = [rule(group_call(OffsetFetchRequest.API_KEY, version=6)) for _ in range(100)]
    codes = {action.with_ for action in actions if action is not None}
    assert None in actions and Code.UNSTABLE_OFFSET_COMMIT not in codes
