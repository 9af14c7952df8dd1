"""ApiVersions: supported versions and features."""

import pytest

from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.extensions import FIRST_API_KEY
from thinconsumer_testing.broker.api.api_versions import API, TELEMETRY
from thinconsumer_testing.broker.apis import APIS
from thinconsumer_testing.broker.client_metrics import TELEMETRY_RECEIVER


@pytest.fixture
def client(new_cluster, client_of):
    return client_of(new_cluster(), 1)


@pytest.fixture
def newer(new_cluster, client_of):
    cluster = new_cluster()
    cluster.set_versions(ApiVersionsRequest, (0, 5))
    return client_of(cluster, 1)


def hello(name="tester", version="1.0"):
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


@pytest.mark.parametrize("version", range(API.lowest, API.highest + 1))
def test_all_apis_are_listed_in_order(client, version):
    answer = client.ask(hello(), version)
    told = [(one.api_key, one.min_version, one.max_version) for one in answer.api_keys]
    assert answer.error_code == 0
    kafkas = {key: api for key, api in APIS.items() if key < FIRST_API_KEY and key not in TELEMETRY}
    assert told == sorted((key, api.lowest, api.highest) for key, api in kafkas.items())


def test_apis_of_telemetry_are_listed_if_something_receives_it(new_cluster, client_of):
    client = client_of(new_cluster(metric_reporters=TELEMETRY_RECEIVER), 1)
    assert {one.api_key for one in client.ask(hello()).api_keys} >= set(TELEMETRY)


@pytest.mark.parametrize("version", range(API.lowest, API.highest + 1))
def test_the_projects_own_apis_are_listed_in_a_tagged_field(client, version):
    """Other clients skip it."""
    told = [one.api_key for one in client.ask(hello(), version).extension_api_keys]
    assert told == ([25_300, 25_301] if version >= 3 else [])


def test_features_with_minimum_level_0_are_omitted_for_old_clients(client):
    assert [one.name for one in client.ask(hello(), 3).supported_features] == ["metadata.version"]
    new = client.ask(hello(), 4)
    assert ("transaction.version", 0, 2) in [(f.name, f.min_version, f.max_version) for f in new.supported_features]
    finalized = {feature.name: feature.max_version_level for feature in new.finalized_features}
    assert finalized == {"group.version": 1, "metadata.version": 30, "transaction.version": 2}
    assert new.finalized_features_epoch >= 0


@pytest.mark.parametrize(("name", "software"), [("", "1"), ("x", ""), ("two words", "1"), ("-x", "1"), ("x", "1-")])
def test_invalid_software_names_are_rejected(client, name, software):
    for version in (3, 4):
        answer = client.ask(hello(name, software), version)
        assert (answer.error_code, answer.api_keys) == (Code.INVALID_REQUEST, [])
    assert client.ask(ApiVersionsRequest(), 2).error_code == 0


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "code"),
    [
        (None, -1, Code.NONE),
        ("own", 1, Code.NONE),
        ("own", 2, Code.REBOOTSTRAP_REQUIRED),
        ("another", 1, Code.REBOOTSTRAP_REQUIRED),
        ("own", -1, Code.INVALID_REQUEST),
        (None, 1, Code.INVALID_REQUEST),
    ],
)
def test_a_client_that_expects_another_cluster_or_node_is_told_to_bootstrap_again(newer, cluster_id, node_id, code):
    """KIP-1242, as in Kafka 4.4's ApiVersionsRequest.isValid and KafkaApis.clusterIdOrNodeIdIsInvalid."""
    request = hello()
    request.cluster_id = newer.cluster.cluster_id if cluster_id == "own" else cluster_id
    request.node_id = node_id
    answer = newer.ask(request, 5)
    assert answer.error_code == code
    assert bool(answer.api_keys) is (code == Code.NONE)
