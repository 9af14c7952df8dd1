"""KIP-1242: a connection names the cluster and node that it expects, and another broker there causes a rebootstrap."""

import pytest

from thinconsumer.types import Node
from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.faults import Disconnect, Reply


def named(bench):
    """Return (node that received it, cluster id, node id) of each ApiVersions."""
    found = bench.cluster.received(ApiVersionsRequest)
    return [(one.node_id, one.message.cluster_id, one.message.node_id) for one in found]


@pytest.fixture
def knowing(make_bench):
    """Return a function: a bench with a cluster id, whose nodes 1 and 2 have these hosts."""

    def make(hosts=("kafka1", "kafka2"), cluster_id=None, **options):
        bench = make_bench(nodes=2, bootstrap=["seed:9092"], **options)
        bench.cluster.set_versions(ApiVersionsRequest, (0, 5))
        bench.network.names["seed"] = bench.network.names["kafka2"]
        bench.id = bench.cluster.cluster_id if cluster_id is None else cluster_id
        bench.nodes = [Node(node_id, host, 9092) for node_id, host in enumerate(hosts, 1)]
        bench.client.update_nodes(bench.nodes, bench.id)
        return bench

    return make


def test_a_connection_to_a_node_names_it_and_one_to_a_bootstrap_server_does_not(make_bench):
    bench = make_bench(nodes=2, bootstrap=["kafka2:9092"])
    bench.cluster.set_versions(ApiVersionsRequest, (0, 5))
    assert bench.answer_to(bench.send()).response
    bench.client.update_nodes([Node(1, "kafka1", 9092), Node(2, "kafka2", 9092)], bench.cluster.cluster_id)
    assert bench.answer_to(bench.send(1)).response
    assert named(bench) == [(2, None, -1), (1, bench.cluster.cluster_id, 1)]


@pytest.mark.parametrize(
    "options", [{"metadata_cluster_check_enable": False}, {"metadata_recovery_strategy": "none"}], ids=str
)
def test_nothing_is_named_if_an_option_says_so(knowing, options):
    bench = knowing(("kafka2", "kafka1"), "another", **options)
    assert bench.answer_to(bench.send(1)).response
    assert named(bench) == [(2, None, -1)]


@pytest.mark.parametrize(
    ("hosts", "cluster_id"), [(("kafka2", "kafka1"), None), (("kafka1", "kafka2"), "another")], ids=["node", "cluster"]
)
def test_another_broker_at_the_address_causes_a_rebootstrap(knowing, hosts, cluster_id):
    bench = knowing(hosts, cluster_id)
    request = bench.send(1)
    assert "not the one that metadata names" in str(bench.answer_to(request).error)
    assert "another broker has got the address of a node" in bench.reasons
    assert "not known" in str(bench.answer_to(bench.send(2)).error)
    assert bench.answer_to(bench.send()).response
    assert bench.network.dials[-1][1] == "seed"
    assert named(bench)[-1] == (2, None, -1)


def test_bootstrap_servers_that_answer_so_too_are_asked_with_a_backoff(knowing):
    """Each rebootstrap forgets the backoff of all routes, so that there would be no pause."""
    bench = knowing()
    bench.cluster.on("ApiVersions", Reply(int(Code.REBOOTSTRAP_REQUIRED)))
    assert bench.answer_to(bench.send(1)).error
    bench.send(allowance=1000.0)
    bench.run(10.0)
    assert bench.reasons.count("another broker has got the address of a node") == 1
    assert len(bench.network.dials) < 60


def test_a_rebootstrap_follows_once_after_each_metadata(knowing):
    bench = knowing(("kafka2", "kafka1"))
    requests = [bench.send(node_id) for node_id in (1, 2)]
    assert all(bench.answer_to(request).error for request in requests)
    bench.run(5.0)
    assert bench.reasons.count("another broker has got the address of a node") == 1
    bench.client.update_nodes(bench.nodes, bench.id)
    assert bench.answer_to(bench.send(1)).error
    assert bench.reasons.count("another broker has got the address of a node") == 2


def test_a_host_with_another_address_that_answers_rightly_causes_none(knowing):
    bench = knowing(("both", "kafka2"))
    names = bench.network.names
    names["both"] = [*names["kafka2"], *names["kafka1"]]
    assert bench.answer_to(bench.send(1)).response
    assert {(1, bench.id, 1), (2, bench.id, 1)} >= set(named(bench))
    assert bench.reasons.count("another broker has got the address of a node") == 0


def test_a_broker_that_lacks_version_5_gets_the_lower_version_without_the_names(knowing):
    bench = knowing()
    old = bench.cluster.nodes[1]
    api = old.apis[ApiVersionsRequest.API_KEY]
    old.apis = {**old.apis, ApiVersionsRequest.API_KEY: api._replace(highest=4)}
    assert bench.answer_to(bench.send(1)).response
    assert named(bench) == [(1, None, -1)]


def test_a_lost_connection_names_the_node_again(knowing):
    bench = knowing()
    bench.cluster.on("Metadata", Disconnect(), times=1)
    assert bench.answer_to(bench.send(1)).error
    assert bench.answer_to(bench.send(1)).response
    assert named(bench) == [(1, bench.id, 1)] * 2
