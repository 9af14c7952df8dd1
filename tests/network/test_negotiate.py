"""ApiVersions: ask high, fall back as told, and choose within three ranges."""

import re

import pytest

from thinconsumer.errors import BrokerResponseError, KafkaProtocolError, UnsupportedVersionError
from thinconsumer.network.negotiate import (
    SOFTWARE_NAME,
    SOFTWARE_VERSION,
    choose_version,
    likely_cause,
    setup_timeout,
    take_api_versions,
    wrong_port,
)
from thinconsumer.network.states import ConnectionState
from thinconsumer.wire.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from thinconsumer.wire.fetch import FetchRequest

HIGHEST = ApiVersionsRequest.VERSIONS[1]


def response(ranges, version, **fields):
    keys = [ApiVersion(api_key=key, min_version=a, max_version=b) for key, (a, b) in ranges.items()]
    return ApiVersionsResponse(api_keys=keys, **fields).encode(version)


def test_brokers_accept_the_name_and_version_of_the_software():
    for name in (SOFTWARE_NAME, SOFTWARE_VERSION):
        # Brokers reject other characters with INVALID_REQUEST (ApiVersionsRequest.isValid).
        assert re.fullmatch(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", name)


def test_the_response_gives_the_version_ranges():
    _, ranges, version = take_api_versions(response({1: (4, 18), 18: (0, 5)}, HIGHEST), 0, HIGHEST)
    assert (ranges, version) == ({1: (4, 18), 18: (0, 5)}, HIGHEST)


def test_apis_of_this_project_are_listed_beside_kafkas_and_cannot_replace_them():
    own = [ApiVersion(api_key=key, min_version=0, max_version=7) for key in (1, 25_300)]
    _, ranges, _ = take_api_versions(response({1: (4, 18)}, HIGHEST, extension_api_keys=own), 0, HIGHEST)
    assert ranges == {1: (4, 18), 25_300: (0, 7)}


@pytest.mark.parametrize(
    ("offered", "version"),
    [({18: (0, 4)}, 4), ({18: (0, 2)}, 2), ({}, 0), ({18: (0, 0)}, 0), ({3: (0, 9), 18: (0, 3)}, 3)],
)
def test_the_next_version_is_the_one_that_the_rejection_offers(offered, version):
    """UNSUPPORTED_VERSION comes in version 0, whatever was asked; brokers before 2.4 offer nothing and mean 0."""
    assert take_api_versions(response(offered, 0, error_code=35), 0, HIGHEST)[2] == version
    _, *taken = take_api_versions(response({1: (0, 11)}, version), 0, version)
    assert taken == [{1: (0, 11)}, version]


@pytest.mark.parametrize("offered", [{18: (0, HIGHEST)}, {18: (0, 99)}, {18: (-5, -1)}, {18: (7, 9)}, {18: (3, 2)}])
def test_a_rejection_without_a_lower_version_is_a_protocol_error(offered):
    """Otherwise two stubborn sides would talk for ever."""
    with pytest.raises(KafkaProtocolError, match="rejects ApiVersions"):
        take_api_versions(response(offered, 0, error_code=35), 0, HIGHEST)


def test_the_number_of_fallbacks_is_bounded():
    refusal = response({18: (0, 3)}, 0, error_code=35)
    lower = take_api_versions(refusal, 0, HIGHEST)[2]
    with pytest.raises(KafkaProtocolError):
        take_api_versions(refusal, 0, lower)


def test_any_other_error_code_is_raised():
    with pytest.raises(BrokerResponseError) as caught:
        take_api_versions(response({}, HIGHEST, error_code=42), 0, HIGHEST)
    assert caught.value.name == "INVALID_REQUEST"


@pytest.mark.parametrize("size", range(20))
def test_a_truncated_response_is_a_protocol_error(size):
    whole = response({1: (4, 18)}, HIGHEST)
    with pytest.raises(KafkaProtocolError):
        take_api_versions(whole[: min(size, len(whole) - 1)], 0, HIGHEST)


OURS = FetchRequest.VERSIONS[1]


@pytest.mark.parametrize(
    ("offered", "lowest", "highest", "version"),
    [
        ((4, 18), 0, None, min(18, OURS)),
        ((4, 99), 0, None, OURS),
        ((4, 18), 0, 12, 12),
        ((4, 11), 0, 12, 11),
        ((4, 11), 11, None, 11),
        ((12, 12), 12, 12, 12),
    ],
)
def test_the_highest_version_within_all_bounds_is_chosen(offered, lowest, highest, version):
    assert choose_version(FetchRequest, {1: offered}, 1, lowest, highest) == version


@pytest.mark.parametrize(
    ("ranges", "lowest", "highest", "words"),
    [
        ({}, 0, None, "broker 3 does not have this API"),
        ({1: (50, 60)}, 0, None, "Fetch versions 0 to .* has versions 50 to 60"),
        ({1: (4, 6)}, 7, None, "Fetch versions 7 to .* has versions 4 to 6"),
        ({1: (13, 18)}, 0, 12, "Fetch versions 0 to 12, but .* 13 to 18"),
        ({1: (9, 5)}, 0, None, "9 to 5"),
        ({1: (-3, -1)}, 0, None, "-3 to -1"),
    ],
)
def test_no_common_version_names_api_and_ranges(ranges, lowest, highest, words):
    with pytest.raises(UnsupportedVersionError, match=words) as caught:
        choose_version(FetchRequest, ranges, 3, lowest, highest)
    assert (caught.value.api, caught.value.node_id, caught.value.code) == ("Fetch", 3, 35)


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        ("PLAINTEXT", "security_protocol='SSL'"),
        ("SASL_PLAINTEXT", "security_protocol='SASL_SSL'"),
        ("SSL", "it is not a Kafka listener"),
    ],
)
def test_a_port_that_does_not_answer_is_explained_by_the_security_protocol(protocol, words):
    assert words in wrong_port(protocol)


@pytest.mark.parametrize(
    ("state", "protocol", "unanswered", "words"),
    [
        (ConnectionState.NEGOTIATING, "PLAINTEXT", None, "before it answered ApiVersions"),
        (ConnectionState.AUTHENTICATING, "SASL_SSL", None, "check security_protocol, which is 'SASL_SSL'"),
        (ConnectionState.REAUTHENTICATING, "SASL_SSL", "Fetch", "while it logged in again"),
        (ConnectionState.READY, "PLAINTEXT", "Fetch", "without an answer to Fetch: the listener may require a login"),
        (ConnectionState.READY, "SASL_SSL", "Fetch", "without an answer to Fetch"),
    ],
)
def test_the_cause_follows_from_the_state(state, protocol, unanswered, words):
    cause = likely_cause(state, protocol, unanswered)
    assert words in cause
    assert ("require a login" in cause) == ("require a login" in words)


def test_the_end_of_a_connection_that_worked_has_no_likely_cause():
    assert likely_cause(ConnectionState.READY, "PLAINTEXT", None) == ""


def test_a_timeout_names_the_step_of_the_setup():
    steps = [ConnectionState.CONNECTING, ConnectionState.NEGOTIATING, ConnectionState.AUTHENTICATING]
    texts = [setup_timeout(state, 10.0, "PLAINTEXT") for state in steps]
    assert all("within 10.0 s" in text for text in texts)
    assert "no connection" in texts[0] and "no answer to ApiVersions" in texts[1] and "the login" in texts[2]
