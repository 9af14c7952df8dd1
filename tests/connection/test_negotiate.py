"""ApiVersions: ask high, fall back as told, and choose within three ranges."""

from __future__ import annotations

import re

import pytest

from thinconsumer.connection.negotiate import (
    SOFTWARE_NAME,
    SOFTWARE_VERSION,
    ApiVersionsCache,
    Negotiation,
    choose_version,
)
from thinconsumer.errors import BrokerResponseError, KafkaProtocolError, UnsupportedVersionError
from thinconsumer.wire.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from thinconsumer.wire.fetch import FetchRequest

HIGHEST = ApiVersionsRequest.VERSIONS[1]


def response(ranges, version, **fields):
    keys = [ApiVersion(api_key=key, min_version=a, max_version=b) for key, (a, b) in ranges.items()]
    return ApiVersionsResponse(api_keys=keys, **fields).encode(version)


def test_asks_the_highest_version_first_and_names_the_software():
    negotiation = Negotiation()
    assert negotiation.version == HIGHEST
    request = negotiation.request()
    assert request.client_software_name == SOFTWARE_NAME
    for name in (SOFTWARE_NAME, SOFTWARE_VERSION):
        # What a broker accepts (ApiVersionsRequest.isValid): anything else is INVALID_REQUEST.
        assert re.fullmatch(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", name)


def test_takes_the_ranges():
    negotiation = Negotiation()
    _, ranges = negotiation.take(response({1: (4, 18), 18: (0, 5)}, HIGHEST), 0)
    assert ranges == {1: (4, 18), 18: (0, 5)}


@pytest.mark.parametrize(
    ("offered", "version"),
    [({18: (0, 4)}, 4), ({18: (0, 2)}, 2), ({}, 0), ({18: (0, 0)}, 0), ({3: (0, 9), 18: (0, 3)}, 3)],
)
def test_falls_back_to_what_the_refusal_offers(offered, version):
    """UNSUPPORTED_VERSION comes in version 0, whatever was asked; brokers before 2.4 offer nothing and mean 0."""
    negotiation = Negotiation()
    refusal = response(offered, 0, error_code=35)
    assert negotiation.take(refusal, 0)[1] is None
    assert negotiation.version == version
    _, ranges = negotiation.take(response({1: (0, 11)}, version), 0)
    assert ranges == {1: (0, 11)}


@pytest.mark.parametrize("offered", [{18: (0, HIGHEST)}, {18: (0, 99)}, {18: (-5, -1)}, {18: (7, 9)}, {18: (3, 2)}])
def test_a_refusal_that_offers_nothing_lower_ends_it(offered):
    """Otherwise two stubborn sides would talk for ever."""
    negotiation = Negotiation()
    with pytest.raises(KafkaProtocolError, match="rejects ApiVersions"):
        negotiation.take(response(offered, 0, error_code=35), 0)


def test_fallbacks_come_to_an_end():
    negotiation = Negotiation()
    refusal = response({18: (0, 3)}, 0, error_code=35)
    negotiation.take(refusal, 0)
    with pytest.raises(KafkaProtocolError):
        negotiation.take(refusal, 0)


def test_another_error_is_raised_with_its_name():
    with pytest.raises(BrokerResponseError) as caught:
        Negotiation().take(response({}, HIGHEST, error_code=42), 0)
    assert caught.value.name == "INVALID_REQUEST"


@pytest.mark.parametrize("size", range(20))
def test_truncated_answers_are_protocol_errors(size):
    whole = response({1: (4, 18)}, HIGHEST)
    with pytest.raises(KafkaProtocolError):
        Negotiation().take(whole[: min(size, len(whole) - 1)], 0)


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
def test_chooses_the_highest_within_all_bounds(offered, lowest, highest, version):
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


def test_what_one_broker_refused_the_next_is_not_asked():
    """Each refusal costs a round trip, and brokers of one cluster are mostly of one version."""
    opening = ApiVersionsCache()
    Negotiation(opening).take(response({18: (0, 4)}, 0, error_code=35), 0)
    assert Negotiation(opening).version == 4
    assert Negotiation().version == HIGHEST
