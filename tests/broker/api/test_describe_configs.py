"""DescribeConfigs: configs with their sources."""

import pytest

from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.api.describe_configs import API
from thinconsumer_testing.broker.wire.administration import DescribeConfigsRequest, DescribeConfigsResource

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def describe(*resources, **more):
    rows = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        for kind, name, keys in resources
    ]
    return DescribeConfigsRequest(resources=rows, **more)


def values(result):
    return {config.name: config.value for config in result.configs}


@pytest.fixture
def client(new_cluster, client_of):
    cluster = new_cluster(2, racks=["a", None], message_max_bytes=5000)
    cluster.create_topic("t", 1, configs={"retention.ms": "5"})
    return client_of(cluster, 1)


@pytest.mark.parametrize("version", range(API.lowest, API.highest + 1))
def test_topic_configs_in_every_version(client, version):
    (result,) = client.ask(describe((TOPIC, "t", None), include_synonyms=True), version).results
    assert (result.error_code, result.resource_type, result.resource_name) == (0, TOPIC, "t")
    configs = {config.name: config for config in result.configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", 1)
    assert [(s.value, s.source) for s in configs["max.message.bytes"].synonyms] == [("5000", 4), ("1048588", 5)]
    assert configs["retention.ms"].config_type == (5 if version >= 3 else 0)


def test_selected_configs_without_synonyms(client):
    (result,) = client.ask(describe((TOPIC, "t", ["retention.ms", "nonsense"]))).results
    assert values(result) == {"retention.ms": "5"}
    assert result.configs[0].synonyms == []
    (everything,) = client.ask(describe((TOPIC, "t", []))).results
    assert len(everything.configs) > 30


def test_broker_configs(client):
    (result,) = client.ask(describe((BROKER, "1", None), include_synonyms=True)).results
    told = values(result)
    names = ("node.id", "broker.rack", "message.max.bytes", "auto.create.topics.enable")
    assert [told[name] for name in names] == ["1", "a", "5000", "true"]
    assert not [name for name in told if name.endswith(".s")], "settings that Kafka does not have are not shown"
    size = next(config for config in result.configs if config.name == "message.max.bytes")
    assert [(s.value, s.source) for s in size.synonyms] == [("5000", 4), ("1048588", 5)]
    assert not size.read_only
    (defaults,) = client.ask(describe((BROKER, "", None))).results
    assert values(defaults) == {"min.insync.replicas": "1"}, "the cluster-wide defaults"


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        ((LOGGER, "", None), Code.INVALID_REQUEST),
        ((LOGGER, "2", None), Code.INVALID_REQUEST),
        ((METRICS, "", None), Code.INVALID_REQUEST),
        ((GROUP, "", None), Code.INVALID_REQUEST),
    ],
)
def test_invalid_resource_does_not_affect_the_others(client, resource, code):
    bad, good = client.ask(describe(resource, (TOPIC, "t", ["retention.ms"]))).results
    assert (bad.error_code, bad.configs) == (code, [])
    assert values(good) == {"retention.ms": "5"}


@pytest.mark.parametrize("resource", [(LOGGER, "1", None), (METRICS, "m", None), (GROUP, "g", None)])
def test_resource_types_without_configs(client, resource):
    (result,) = client.ask(describe(resource)).results
    assert (result.error_code, result.configs) == (0, [])
