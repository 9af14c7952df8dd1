"""One attempt to fetch a token from a scripted server: every fault ends it, within its deadlines."""

import json
import random
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from thinconsumer.config import ClientOptions
from thinconsumer.config.security_kinds import JWT_BEARER
from thinconsumer.driver import Address, Dial, Hangup, Resolve
from thinconsumer.errors import KafkaConnectionError
from thinconsumer.sasl.oidc import ClientCredentials, token_source
from thinconsumer.sasl.token_fetch import ADDRESSES_MAX, TokenFetch
from thinconsumer.sockets.selector_driver import SelectorDriver
from thinconsumer.support.agenda import NEVER, Agenda

SECRET = "c4n4ry/s3cr3t+"
URL = "http://idp.example:8080/token?key=hidden"
CONNECT, READ = 2.0, 5.0


def http(body: object = b"", status: int = 200, headers: str = "") -> bytes:
    """Return a response of a token endpoint; a dict becomes JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status} Because\r\n{headers}Content-Length: {len(data)}\r\n\r\n".encode() + data


TOKEN = http({"access_token": "abc", "expires_in": 60})


def options(url=URL, **more):
    return ClientOptions(
        **more,
        sasl_oauthbearer_token_endpoint_url=url,
        sasl_oauthbearer_client_credentials_client_id="app",
        sasl_oauthbearer_client_credentials_client_secret=SECRET,
        sasl_login_connect_timeout_ms=CONNECT * 1000,
        sasl_login_read_timeout_ms=READ * 1000,
    )


class Driven(TokenFetch):
    """A fetch as the only endpoint of a driver."""

    unsent = ()

    def __init__(self, url, wall_time, now, source=None, **more):
        self.agenda = Agenda()
        source = source or ClientCredentials(options(url))
        super().__init__(source, options(url, **more), random.Random(1), wall_time, self.agenda, deque(), now)

    @property
    def commands(self):
        return self._commands

    def take_commands(self):
        commands = [*self._commands]
        self._commands.clear()
        return commands

    def step(self, now):
        self.agenda.take(now)
        super().step(now)


class Attempt:
    """A fetch and the driver that runs it."""

    def __init__(self, stage, source=None):
        self.stage = stage
        self.began = stage.clock.now()
        self.fetch = Driven(URL, stage.clock.wall_time, self.began, source)

    def run(self, seconds=60.0):
        """Run until the attempt is over; return it and the seconds that it took."""
        deadline = self.began + seconds
        steps = 0
        while not self.fetch.is_over:
            assert self.stage.clock.now() < deadline
            steps += 1
            assert steps < 2000
            self.stage.driver.step(self.fetch, deadline)
            self.fetch.step(self.stage.clock.now())
        took = self.stage.clock.now() - self.began
        self.stage.driver.step(self.fetch, self.stage.clock.now())  # for the last Hangup
        assert self.stage.driver.streams == []
        assert self.fetch.agenda.next() == NEVER
        return self.fetch, took

    def error(self):
        fetch, took = self.run()
        assert fetch.token is None
        assert SECRET not in str(fetch.error)
        assert str(fetch.error).startswith("token endpoint http://idp.example:8080/token: ")
        return fetch.error, took


@pytest.fixture
def attempt(stage):
    return Attempt(stage)


def test_a_token(stage, attempt):
    peer = stage.serve(TOKEN, then_close=False)  # a server that keeps the connection open
    fetch, took = attempt.run()
    assert fetch.token.value == "abc"
    assert fetch.token.expires_at == pytest.approx(stage.clock.wall_time() + 60 - took)
    assert took < 0.1
    assert peer.received.startswith(b"POST /token?key=hidden HTTP/1.1\r\n")


def test_the_dial_says_how_to_encrypt():
    for scheme in ("http", "https"):
        fetch = Driven(f"{scheme}://[::1]/", lambda: 0.0, 0.0)
        assert fetch.take_commands() == [Resolve("::1", {"http": 80, "https": 443}[scheme])]
        address = Address(10, ("::1", 80, 0, 0))
        fetch.resolved("::1", {"http": 80, "https": 443}[scheme], [address], "", 0.0)
        fetch.step(0.0)
        (dial,) = fetch.take_commands()
        assert (dial.host, dial.address, dial.purpose) == ("::1", address, scheme)


@pytest.mark.parametrize("chunk", [1, 5])
def test_a_response_in_small_parts(stage, attempt, chunk):
    stage.network.chunk = stage.network.send_limit = chunk
    stage.serve(*[TOKEN] * 1000, then_close=False)
    assert attempt.run()[0].token.value == "abc"


def test_bytes_after_the_response_are_ignored(stage, attempt):
    stage.serve(TOKEN + http(b"late", 500))
    assert attempt.run()[0].token.value == "abc"


def test_a_response_that_comes_before_the_request(stage, attempt):
    stage.network.listen("10.0.0.1", 8080, ScriptedBanner(http(b"", 408)))
    error, _ = attempt.error()
    assert "408" in str(error) and error.retriable


class ScriptedBanner:
    def __init__(self, data):
        self.data = data

    def connection_made(self, connection):
        connection.send(self.data)
        return self

    def data_received(self, data):
        pass

    def connection_lost(self):
        pass


@pytest.mark.parametrize(
    ("obstruct", "least"),
    [
        pytest.param(lambda stage: None, 0.0, id="refuses"),
        pytest.param(lambda stage: stage.network.black_hole("10.0.0.1", 8080), CONNECT, id="is silent"),
        pytest.param(lambda stage: stage.serve(b""), 0.0, id="closes"),
        pytest.param(lambda stage: stage.serve(b"HTTP/1.1 200 OK\r\n"), 0.0, id="closes within the response"),
    ],
)
def test_the_next_address_is_tried_when_one_gives_no_answer(stage, attempt, obstruct, least):
    obstruct(stage)
    stage.serve(TOKEN, host="10.0.0.2")
    fetch, took = attempt.run()
    assert fetch.token.value == "abc" and least <= took < least + 0.1


def test_an_answer_of_the_first_address_counts(stage, attempt):
    stage.serve(http(b"", 500))
    stage.serve(TOKEN, host="10.0.0.2")
    assert "500" in str(attempt.error()[0])
    assert len(stage.network.dials) == 1


def test_all_addresses_refuse(stage, attempt):
    error, took = attempt.error()
    assert "refused" in str(error) and "10.0.0.2" in str(error)
    assert isinstance(error, KafkaConnectionError) and error.retriable
    assert took < 0.1


def test_a_host_with_many_addresses(stage, attempt):
    stage.network.names["idp.example"] = [f"10.0.1.{i}" for i in range(100)]
    attempt.error()
    assert len(stage.network.dials) == ADDRESSES_MAX


def test_a_server_that_never_answers(stage, attempt):
    stage.serve(then_close=False)
    stage.network.refuse("10.0.0.2", 8080)
    error, took = attempt.error()
    assert "refused" in str(error)  # the last address that was tried
    assert READ <= took < READ + 0.1


def test_a_server_that_sends_a_byte_a_second(stage, attempt):
    class Slow(ScriptedBanner):
        def connection_made(self, connection):
            def send_one():
                connection.send(b"H")
                connection.call_later(1.0, send_one)

            self.data = b""
            connection.call_later(0.0, lambda: connection.send(b"HTTP/1.1 200 OK\r\nX: "))
            connection.call_later(0.5, send_one)
            return self

    stage.network.names["idp.example"] = ["10.0.0.1"]
    stage.network.listen("10.0.0.1", 8080, Slow(b""))
    error, took = attempt.error()
    assert "no complete response from 10.0.0.1:8080 within 5.0 s (sasl_login_read_timeout_ms)" in str(error)
    assert took == pytest.approx(READ, abs=0.1)


def test_the_progress_names_the_stage(stage, attempt):
    def progress():
        attempt.fetch.step(stage.clock.now())
        return attempt.fetch.progress.removeprefix("token endpoint http://idp.example:8080/token: ")

    stage.serve(then_close=False)
    assert progress() == "resolving the name"
    stage.driver.step(attempt.fetch, stage.clock.now())
    assert progress() == "connecting to 10.0.0.1:8080"
    stage.driver.step(attempt.fetch, stage.clock.now() + 1)
    assert progress() == "waiting for the response of 10.0.0.1:8080"


def test_addresses_that_drop_packets(stage, attempt):
    for host in ("10.0.0.1", "10.0.0.2"):
        stage.network.black_hole(host, 8080)
    error, took = attempt.error()
    assert "no connection from 10.0.0.2:8080 within 2.0 s (sasl_login_connect_timeout_ms)" in str(error)
    assert took == pytest.approx(2 * CONNECT, abs=0.1)


def test_a_lookup_that_is_never_answered():
    fetch = Driven(URL, lambda: 0.0, 0.0)
    assert fetch.agenda.next() == CONNECT
    fetch.step(1.9)
    assert not fetch.is_over
    fetch.step(CONNECT)
    assert "not resolved within 2.0 s" in str(fetch.error)


def test_other_lookups_and_second_results_are_ignored():
    fetch = Driven(URL, lambda: 0.0, 0.0)
    fetch.take_commands()
    fetch.resolved("broker", 9092, [Address(2, ("10.0.0.9", 9092))], "", 0.0)
    fetch.step(0.0)
    assert fetch.take_commands() == []
    for ip in ("10.0.0.1", "10.0.0.2"):
        fetch.resolved("idp.example", 8080, [Address(2, (ip, 8080))], "", 0.0)
    assert fetch.agenda.next() == -NEVER
    fetch.step(0.0)
    (dial,) = fetch.take_commands()
    assert dial.address.sockaddr == ("10.0.0.1", 8080)
    dial.stream.connection_lost(None, 0.0)
    assert fetch.agenda.next() == -NEVER
    fetch.step(0.0)
    assert fetch.is_over
    fetch.step(0.0)
    fetch.resolved("idp.example", 8080, [], "late", 0.0)
    assert fetch.take_commands() == []  # no Hangup: the driver has no transport any more


def test_an_endpoint_that_is_not_reached_is_one_that_proxy_url_is_not_used_for():
    fetch = Driven(URL, lambda: 0.0, 0.0, proxy_url="http://proxy:3128")
    fetch.resolved("idp.example", 8080, [], "no such name", 0.0)
    assert str(fetch.error).endswith("no such name (not through proxy_url, which is for brokers only)")


def test_a_rejected_certificate_is_the_error_that_counts():
    fetch = Driven("https://idp.example/", lambda: 0.0, 0.0, proxy_url="http://proxy:3128")
    fetch.take_commands()
    fetch.resolved("idp.example", 443, [Address(2, (f"10.0.0.{i}", 443)) for i in (1, 2)], "", 0.0)
    errors = [
        KafkaConnectionError("idp.example:443: untrusted certificate", is_certificate_rejected=True),
        KafkaConnectionError("idp.example:443: connection refused"),
    ]
    for error in errors:
        fetch.step(0.0)
        (dial,) = fetch.take_commands()
        assert isinstance(dial, Dial)
        dial.stream.connection_lost(error, 0.0)
    fetch.step(0.0)
    assert fetch.error.is_certificate_rejected
    assert str(fetch.error) == "token endpoint https://idp.example/: idp.example:443: untrusted certificate"
    assert fetch.error.__cause__ is errors[0]


@pytest.fixture(params=["secret", "client assertion", "grant by assertion", "azure_imds"])
def source(request, tmp_path):
    """Each kind of token request, to ``URL``; what must not be shown has the word c4n4ry."""
    if request.param == "secret":
        return ClientCredentials(options())
    given = {"sasl_oauthbearer_token_endpoint_url": URL}
    if request.param == "azure_imds":
        given |= {"sasl_oauthbearer_metadata_authentication_type": "azure_imds"}
        return token_source(ClientOptions(**given, sasl_oauthbearer_config="query=resource=c4n4ry"))
    (tmp_path / "assertion.jwt").write_text("a.b.c4n4ry")
    if request.param == "grant by assertion":
        given["sasl_oauthbearer_grant_type"] = JWT_BEARER
    return token_source(ClientOptions(**given, sasl_oauthbearer_assertion_file=str(tmp_path / "assertion.jwt")))


def test_each_source_gets_a_token(stage, source):
    peer = stage.serve(TOKEN)
    assert Attempt(stage, source).run()[0].token.value == "abc"
    assert b"c4n4ry" in peer.received or b"Basic " in peer.received


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (http(b"a" * 70_000), "more than 65536 bytes"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000, "not valid HTTP"),
        (b"Kafka\r\n\r\n", "not valid HTTP"),
        (http(b"<html>c4n4ry</html>", headers="Content-Type: text/html\r\n"), "not a JSON object"),
        (http({"access_token": "abc", "expires_in": -1}), "expired already"),
        (http({"access_token": "a\u0001b c4n4ry"}), "characters that a bearer token cannot have"),
        (http({"access_token": ["c4n4ry"], "expires_in": "soon"}), "no access_token"),
        (http(b"", 307, "Location: http://evil/\r\n"), "redirects are not followed"),
        (http({"error": "invalid_client"}, 401), "invalid_client"),
    ],
)
def test_answers_that_are_no_token(stage, source, answer, words):
    stage.serve(answer)
    error, took = Attempt(stage, source).error()
    assert words in str(error) and took < 1
    assert "c4n4ry" not in str(error)
    assert len(stage.network.dials) == 1


def test_without_an_assertion_nothing_is_dialled(stage, tmp_path):
    (tmp_path / "assertion.jwt").write_text("c4n4ry")
    given = {"sasl_oauthbearer_assertion_file": str(tmp_path / "assertion.jwt")}
    source = token_source(ClientOptions(sasl_oauthbearer_token_endpoint_url=URL, **given))
    fetch, took = Attempt(stage, source).run()
    assert "assertion.jwt: it has no signed JWT" in str(fetch.error) and took < 0.1
    assert fetch.error.__traceback__ is None and not fetch.error.retriable
    assert not stage.network.dials


def test_a_stream_that_is_over_takes_nothing_more(stage, attempt):
    stage.serve(then_close=False)
    for _ in range(3):
        stage.driver.step(attempt.fetch, stage.clock.now() + 0.01)
        attempt.fetch.step(stage.clock.now())
    (stream,) = stage.driver.streams
    attempt.fetch.step(stage.clock.now() + READ)
    hangup, dial = attempt.fetch.take_commands()
    assert hangup == Hangup(stream) and isinstance(dial, Dial)
    late = str(stream.error)
    assert stream.buffer_updated(1, 0.0)
    stream.connection_lost(None, 0.0)
    assert str(stream.error) == late


class Handler(BaseHTTPRequestHandler):
    """A token endpoint on this machine."""

    def do_POST(self):
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, self.headers["Host"], asked))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"access_token": "abc"}')

    def log_message(self, *arguments):
        pass


def test_over_sockets():
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.requests = []
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        port = server.server_port
        driver = SelectorDriver()
        url = f"http://127.0.0.1:{port}/token?a=b"
        fetch = Driven(url, driver.wall_time, driver.now())
        try:
            while not fetch.is_over:
                driver.step(fetch, driver.now() + READ)
                fetch.step(driver.now())
        finally:
            driver.close()
            thread.join()
    assert fetch.token.value == "abc"
    assert server.requests == [("/token?a=b", f"127.0.0.1:{port}", b"grant_type=client_credentials")]
