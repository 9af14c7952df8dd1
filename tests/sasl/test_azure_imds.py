"""Tokens of Azure's instance metadata service: the request, and its answers."""

import json
import random

import jwt
import pytest

from thinconsumer.config import ClientOptions
from thinconsumer.sasl.azure_imds import IMDS_URL
from thinconsumer.sasl.oidc import HttpResponse, TokenEndpointError, token_source

NOW = 1_700_000_000.0
QUERY = "api-version=2018-02-01&resource=api%3A%2F%2Fkafka&client_id=c4n4ry"


def identity(config=f"query={QUERY}", url=None):
    return token_source(
        ClientOptions(
            sasl_oauthbearer_metadata_authentication_type="azure_imds",
            sasl_oauthbearer_config=config,
            sasl_oauthbearer_token_endpoint_url=url,
        )
    )


def answer(status=200, **parsed):
    return HttpResponse(status, json.dumps(parsed).encode())


@pytest.mark.parametrize(
    ("config", "url", "host", "target"),
    [
        (f"query={QUERY}", None, "169.254.169.254", f"/metadata/identity/oauth2/token?{QUERY}"),
        (f"a=b,params={QUERY}", "http://127.0.0.1:81/t", "127.0.0.1:81", f"/t?{QUERY}"),
        (f"query={QUERY}", "http://127.0.0.1:81/t?x=y", "127.0.0.1:81", f"/t?x=y&{QUERY}"),
        (None, "http://127.0.0.1:81/t?x=y", "127.0.0.1:81", "/t?x=y"),
    ],
)
def test_the_request(config, url, host, target):
    head, _, body = identity(config, url).exchange(NOW, random.Random(1)).request.decode().partition("\r\n\r\n")
    first, *headers = head.split("\r\n")
    assert first == f"GET {target} HTTP/1.1" and body == ""
    assert {f"Host: {host}", "Metadata: true", "Connection: close"} <= set(headers)
    assert not [line for line in headers if line.lower().startswith(("authorization", "content-", "x-forwarded"))]


def test_the_address():
    assert IMDS_URL == "http://169.254.169.254/metadata/identity/oauth2/token"
    endpoint = identity().endpoint
    assert (endpoint.scheme, endpoint.host, endpoint.port) == ("http", "169.254.169.254", 80)
    assert "c4n4ry" not in repr(identity()) + str(endpoint)


def test_a_token():
    value = jwt.encode({"exp": NOW + 9, "sub": "vm"}, "k" * 32)
    response = answer(access_token=value, expires_in="3599", expires_on="1", token_type="Bearer", resource="r")
    token = identity().token(response, NOW, NOW)
    assert (token.value, token.expires_at, token.principal) == (value, NOW + 3599, "vm")


@pytest.mark.parametrize(
    ("response", "words", "is_retriable"),
    [
        (
            answer(400, error="invalid_request", error_description="Identity not found"),
            "invalid_request: Identity not found .check the query in sasl_oauthbearer_config, and assign a managed",
            False,
        ),
        (answer(400, error="invalid_resource"), "check resource in sasl_oauthbearer_config", False),
        (answer(403), "HTTP status 403$", False),
        (answer(405), "HTTP status 405$", False),
        (answer(404), "HTTP status 404$", True),
        (answer(410), "HTTP status 410$", True),
        (answer(429), "HTTP status 429$", True),
        (answer(500, error="unknown"), "HTTP status 500, unknown$", True),
        (HttpResponse(302, b""), "redirects are not followed", False),
        (answer(id_token="x"), "no access_token$", False),
        (answer(access_token="abc", expires_in="0"), "expired already", True),
        (HttpResponse(200, b"<html>"), "not a JSON object", False),
    ],
)
def test_answers_that_are_no_token(response, words, is_retriable):
    with pytest.raises(TokenEndpointError, match=words) as caught:
        identity().token(response, NOW, NOW)
    assert caught.value.retriable is is_retriable
    assert "c4n4ry" not in str(caught.value)
