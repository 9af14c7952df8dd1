"""DescribeCluster lists live brokers and rejects other endpoint types."""

import pytest

from thinconsumer_testing.broker.api.describe_cluster import API
from thinconsumer_testing.broker.wire.administration import DescribeClusterRequest


@pytest.mark.parametrize("version", range(API.lowest, API.highest + 1))
def test_brokers_are_listed_with_racks(new_cluster, client_of, version):
    cluster = new_cluster(2, racks=["a", None])
    answer = client_of(cluster, 2).ask(DescribeClusterRequest(), version)
    assert [(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers] == [
        (1, "kafka1", 9092, "a"),
        (2, "kafka2", 9092, None),
    ]
    assert answer.cluster_id == cluster.cluster_id
    assert answer.controller_id in (1, 2)
    assert answer.cluster_authorized_operations == -(2**31)


def test_fenced_brokers_are_not_listed(new_cluster, client_of):
    cluster = new_cluster(2)
    cluster.kill(1, noticed_after_s=0)
    request = DescribeClusterRequest(include_fenced_brokers=True, include_cluster_authorized_operations=True)
    answer = client_of(cluster, 2).ask(request)
    assert answer.cluster_authorized_operations > 0
    assert [b.broker_id for b in answer.brokers] == [2]
    assert answer.controller_id == 2
