"""The client credentials request and its response, without sockets."""

import base64
import json
import random

import h11
import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer.config import ClientOptions
from thinconsumer.errors import KafkaConfigurationError
from thinconsumer.sasl import mechanism
from thinconsumer.sasl.oidc import (
    BODY_BYTES_MAX,
    HEADERS_BYTES_MAX,
    ClientCredentials,
    HttpResponse,
    TokenEndpoint,
    TokenEndpointError,
)

NOW = 1_700_000_000.0
SECRET = "c4n4ry/s3cr3t+"


def credentials(url="https://idp.example/token?key=hidden", client_id="app", secret=SECRET, **more):
    options = {
        "token_endpoint_url": url,
        "client_credentials_client_id": client_id,
        "client_credentials_client_secret": secret,
        **more,
    }
    return ClientCredentials(ClientOptions(**{f"sasl_oauthbearer_{name}": value for name, value in options.items()}))


def sent(one):
    """Return the request as a server of h11 reads it: method, target, headers, body."""
    server = h11.Connection(h11.SERVER)
    server.receive_data(one.exchange(NOW, random.Random(1)).request)
    request = server.next_event()
    body = server.next_event()
    assert isinstance(server.next_event(), h11.EndOfMessage)
    headers = {name.decode(): value.decode() for name, value in request.headers}
    return request.method, request.target, headers, bytes(body.data)


def answer(status=200, **parsed):
    return HttpResponse(status, json.dumps(parsed).encode())


def received(data, size=None, *, ends=True):
    """Return the response in these bytes, received in parts of ``size`` bytes."""
    exchange = credentials().exchange(NOW, random.Random(1))
    size = size or len(data) or 1
    for start in range(0, len(data), size):
        response = exchange.receive(data[start : start + size])
        if response is not None:
            return response
    assert ends
    return exchange.receive(b"")


@pytest.mark.parametrize(
    ("url", "scheme", "host", "port", "target", "authority"),
    [
        ("https://idp.example/token", "https", "idp.example", 443, "/token", "idp.example"),
        ("http://idp.example", "http", "idp.example", 80, "/", "idp.example"),
        ("HTTPS://IDP.example:443/a?b=c", "https", "idp.example", 443, "/a?b=c", "idp.example"),
        ("http://[::1]:8080/t", "http", "::1", 8080, "/t", "[::1]:8080"),
        ("https://[2001:DB8::1]/t", "https", "2001:db8::1", 443, "/t", "[2001:db8::1]"),
        ("https://10.0.0.1:80/t", "https", "10.0.0.1", 80, "/t", "10.0.0.1:80"),
    ],
)
def test_urls(url, scheme, host, port, target, authority):
    endpoint = TokenEndpoint.parse(url)
    assert endpoint == TokenEndpoint(scheme, host, port, target)
    assert endpoint.authority == authority
    assert str(endpoint) == f"token endpoint {scheme}://{authority}{target.partition('?')[0]}"


def test_the_request():
    method, target, headers, body = sent(credentials(scope=" a:b c "))
    assert (method, target) == (b"POST", b"/token?key=hidden")
    assert headers["host"] == "idp.example"
    assert headers["accept"] == "application/json"
    assert headers["connection"] == "close"
    assert headers["content-type"] == "application/x-www-form-urlencoded"
    assert body == b"grant_type=client_credentials&scope=a%3Ab+c"
    assert sent(credentials())[3] == b"grant_type=client_credentials"


@pytest.mark.parametrize(
    ("client_id", "secret", "url_encode", "expected"),
    [(" app ", "p+ä/~", False, "app:p+ä/~"), ("a:b", "p+ä/~ x", True, "a%3Ab:p%2B%C3%A4%2F~+x")],
)
def test_the_authorization_is_encoded_only_if_asked_for(client_id, secret, url_encode, expected):
    one = credentials(client_id=client_id, secret=secret, header_urlencode=url_encode)
    scheme, _, value = sent(one)[2]["authorization"].partition(" ")
    assert (scheme, base64.b64decode(value).decode()) == ("Basic", expected)


@pytest.mark.parametrize(
    ("client_id", "secret", "words"),
    [("a:b", "s", "header_urlencode"), (" ", "s", "client_id is empty"), ("a", " ", "client_secret is empty")],
)
def test_credentials_that_cannot_be_sent(client_id, secret, words):
    with pytest.raises(KafkaConfigurationError, match=words):
        credentials(client_id=client_id, secret=secret)


def test_without_h11_the_extra_is_named(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(mechanism, "import_module", missing)
    with pytest.raises(KafkaConfigurationError, match=r"pip install 'thinconsumer\[oidc\]'"):
        credentials()


def test_an_opaque_token():
    token = credentials().token(answer(access_token="abc", expires_in=60), NOW - 2, NOW)
    assert (token.value, token.expires_at, token.principal) == ("abc", NOW + 58, "app")


def test_a_jwt():
    value = jwt.encode({"exp": NOW + 300, "sub": "me", "azp": "it"}, "k" * 32)
    assert credentials().token(answer(201, access_token=value), NOW, NOW).expires_at == NOW + 300
    assert credentials().token(answer(access_token=value), NOW, NOW).principal == "me"
    assert credentials(sub_claim_name="azp").token(answer(access_token=value), NOW, NOW).principal == "it"


def test_expires_in_goes_before_a_clock_that_differs():
    value = jwt.encode({"exp": NOW - 3600}, "k" * 32)
    assert credentials().token(answer(access_token=value, expires_in="300"), NOW, NOW).expires_at == NOW + 300
    with pytest.raises(TokenEndpointError, match="expired 3600 s ago.*clocks") as caught:
        credentials().token(answer(access_token=value), NOW, NOW)
    assert caught.value.retriable


@pytest.mark.parametrize("expires_in", [None, True, "soon", [], float("inf"), float("nan"), "9" * 20])
def test_an_expires_in_that_is_no_number_is_unknown(expires_in):
    assert credentials().token(answer(access_token="abc", expires_in=expires_in), NOW, NOW).expires_at is None


@pytest.mark.parametrize("expires_in", [0, -5, "0"])
def test_a_token_that_is_expired_when_it_comes(expires_in):
    with pytest.raises(TokenEndpointError, match="expired already"):
        credentials().token(answer(access_token="abc", expires_in=expires_in), NOW, NOW)


@pytest.mark.parametrize(
    ("response", "words", "is_retriable"),
    [
        (answer(401, error="invalid_client"), "401, invalid_client.*client_id.*client_secret.*urlencode", False),
        (answer(400, error="invalid_scope", error_description="no a"), "invalid_scope: no a .*_scope", False),
        (answer(400, errorCode="E1", errorSummary="Okta"), "E1: Okta", False),
        (answer(403), "403 .*client_id", False),
        (answer(404), "404 .*token_endpoint_url", False),
        (HttpResponse(302, b"<html>"), "302 .*redirects are not followed", False),
        (HttpResponse(500, b"<html>"), "HTTP status 500$", True),
        (HttpResponse(429, b""), "HTTP status 429$", True),
        (answer(503, error="temporarily_unavailable"), "503, temporarily_unavailable$", True),
        (HttpResponse(501, b""), "501", False),
        (HttpResponse(200, b"<html>"), "not a JSON object", False),
        (HttpResponse(200, b"[1]"), "not a JSON object", False),
        (HttpResponse(200, b"[" * 50_000), "not a JSON object", False),
        (HttpResponse(200, b"\xff"), "not a JSON object", False),
        (HttpResponse(204, b""), "HTTP status 204", False),
        (answer(id_token="x"), "no access_token", False),
        (answer(access_token=5), "no access_token", False),
        (answer(error="invalid_grant"), "200, invalid_grant", False),  # as a few servers answer
        (answer(access_token="a b"), "characters", True),
        (answer(400, error=["a"], error_description={"b": 1}), "HTTP status 400$", False),
    ],
)
def test_errors(response, words, is_retriable):
    with pytest.raises(TokenEndpointError, match=words) as caught:
        credentials().token(response, NOW, NOW)
    assert str(caught.value).startswith("token endpoint https://idp.example/token: ")
    assert caught.value.retriable is is_retriable
    assert "hidden" not in str(caught.value)


def test_an_error_shows_the_servers_words_bounded_and_without_secrets():
    basic = base64.b64encode(f"app:{SECRET}".encode()).decode()
    echo = f"{SECRET} {basic} c4n4ry%2Fs3cr3t%2B \x1b[31m\n\u202e" + "x" * 10_000
    with pytest.raises(TokenEndpointError) as caught:
        credentials().token(answer(400, error="e", error_description=echo), NOW, NOW)
    text = str(caught.value)
    assert r"e: <hidden> <hidden> <hidden> \x1b[31m\n\u202exxx" in text
    assert len(text) < 500 and text.isprintable()
    assert "c4n4ry" not in text + repr(credentials()) and basic not in text


def test_no_error_keeps_what_was_received():
    """A traceback shows chained errors; a JSON error keeps the whole text, which may contain a token."""
    responses = HttpResponse(200, b'{"access_token": "c4n4ry"'), answer(access_token="c4n4ry x")
    for response in responses:
        with pytest.raises(TokenEndpointError) as caught:
            credentials().token(response, NOW, NOW)
        assert caught.value.__cause__ is None and caught.value.__context__ is None
    with pytest.raises(TokenEndpointError) as caught:
        received(b"c4n4ry\r\n\r\n")
    assert caught.value.__context__ is None and "c4n4ry" not in str(caught.value)


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize("size", [1, 7, None])
@pytest.mark.parametrize(
    "data",
    [
        OK + b"Content-Length: 5\r\n\r\nhello",
        OK + b"Content-Length: 5\r\n\r\nhelloHTTP/1.1 500 Next\r\n\r\n",  # bytes of a next response are ignored
        OK + b"Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nTrailer: a\r\n\r\n",
        OK + b"\r\nhello",  # ends with the connection
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + OK + b"Content-Length: 5\r\n\r\nhello",
        OK.replace(b"\r\n", b"\n") + b"Content-Length: 5\n\nhello",
    ],
)
def test_responses(data, size):
    assert received(data, size) == HttpResponse(200, b"hello")


@pytest.mark.parametrize(
    ("data", "words", "is_retriable"),
    [
        (b"", "ended", True),
        (OK, "ended within", True),
        (OK + b"Content-Length: 5\r\n\r\nhell", "ended within", True),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "ended within", True),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "not valid HTTP", False),
        (b"\x15\x03\x01\x00\x02\x02", "not valid HTTP|ended", False),
        (OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "not valid HTTP", False),
        (OK + b"Content-Length: -5\r\n\r\nhello", "not valid HTTP", False),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "not valid HTTP", False),
        (OK + b"Transfer-Encoding: gzip\r\n\r\nzz\r\n", "not valid HTTP", False),
        (OK + b"a" * (HEADERS_BYTES_MAX + 1), "not valid HTTP", False),
        (OK + b"a: b\r\n" * HEADERS_BYTES_MAX, "not valid HTTP", False),
        (b"HTTP/1.1 101 Switching\r\n\r\n", "not valid HTTP|without a response", False),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 6_000, "more than", False),
        (OK + b"Content-Length: 99999999999\r\n\r\n" + b"a" * (BODY_BYTES_MAX + 1), "more than", False),
        (OK + b"\r\n" + b"a" * (BODY_BYTES_MAX + 1), "more than", False),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * (BODY_BYTES_MAX + 1), "more than", False),
    ],
)
def test_malformed_and_large_responses(data, words, is_retriable):
    with pytest.raises(TokenEndpointError, match=words) as caught:
        received(data, 16 * 1024)
    assert caught.value.retriable is is_retriable or "ended" in str(caught.value)


@given(st.binary(max_size=200), st.sampled_from([b"", OK, OK + b"\r\n", OK + b"Transfer-Encoding: chunked\r\n\r\n"]))
def test_any_bytes_are_a_response_or_an_error(data, begin):
    try:
        response = received(begin + data, 3)
    except TokenEndpointError:
        return
    assert isinstance(response, HttpResponse)


@given(st.binary(max_size=200), st.sampled_from([200, 400, 500]))
def test_any_body_is_a_token_or_an_error(body, status):
    try:
        credentials().token(HttpResponse(status, body), NOW, NOW)
    except TokenEndpointError as error:
        assert str(error).isprintable()
