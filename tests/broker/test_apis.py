"""The table of APIs: complete, consistent, and able to refuse anything in any version."""

from __future__ import annotations

import pytest

from thinconsumer.broker.apis import APIS
from thinconsumer.testing import VERSIONS_4X
from thinconsumer.wire.error_codes import Code

CASES = [(api, version) for api in APIS.values() for version in range(api.lowest, api.highest + 1)]


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.request.__name__)
def test_versions_are_those_of_a_4x_broker(api):
    lowest, highest = api.request.VERSIONS
    assert lowest <= api.lowest <= api.highest <= highest
    assert VERSIONS_4X[api.request.API_KEY] == (api.lowest, api.highest)


@pytest.mark.parametrize(("api", "version"), CASES, ids=lambda x: x if isinstance(x, int) else x.request.__name__)
def test_every_version_can_be_refused(api, version):
    """What a fault rule or a bug makes of a request can be encoded, and is the error."""
    answer = api.refuse(api.request(), version, int(Code.UNKNOWN_SERVER_ERROR))
    assert isinstance(answer, api.request.RESPONSE)
    answer.encode(version)
