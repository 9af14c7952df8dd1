"""The page on security: its recipes are run, its texts of errors are raised, and its table names options that exist."""

import base64
import functools
import http.server
import json
import logging
import os
import re
import sys
import textwrap
import threading
import time
import types
import urllib.parse
import warnings
from pathlib import Path

import kafka
import pytest

import thinconsumer
from tests.pages import DOCS, load
from thinconsumer import Consumer, KafkaError, TopicPartition
from thinconsumer.broker import EmbeddedBroker, ListenerSecurity
from thinconsumer.cli.parsing import parse_properties
from thinconsumer.spark.options import consumer_config, parse

trustme = pytest.importorskip("trustme")
jwt = pytest.importorskip("jwt")
serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")

PAGE = DOCS / "security.md"
TEXT = PAGE.read_text(encoding="utf-8")
SECRET = "billing-secret"
#: The users of all recipes.
USERS = ("billing", "avnadmin", "$ConnectionString")
TOKEN_KEY = "a key of at least thirty-two bytes"
PATIENCE_S = 20.0
ADDRESS = re.compile(r"""(?<=["' =])[a-z0-9][\w.-]+\.(?:com|cloud|net|svc):\d{2,5}\b""")


def blocks(language):
    """Return the page's blocks in a language, with the heading that each is under."""
    found = []
    for match in load("check").FENCE.finditer(TEXT):
        heading = re.findall(r"^#+ +(.*)$", load("check").FENCE.sub("", TEXT[: match.start()]), re.MULTILINE)[-1]
        if match["language"] == language:
            found.append(pytest.param(textwrap.dedent(match["body"]), id=f"{heading}-{len(found)}"))
    return found


def token():
    claims = {"sub": "billing", "iat": int(time.time()) - 20, "exp": int(time.time()) + 600}
    return jwt.encode(claims, TOKEN_KEY, "HS256")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with every file that the recipes name, and the broker's certificate."""
    folder = tmp_path_factory.mktemp("files")
    authority, client = trustme.CA(), trustme.CA()
    for name in ("ca.pem", "ca.crt"):
        authority.cert_pem.write_to_path(str(folder / name))
    client.cert_pem.write_to_path(str(folder / "client-ca.pem"))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(folder / "broker.pem"))
    own = client.issue_cert("billing@example.com", common_name="billing")
    for cert, key in (("client.pem", "client.key"), ("user.crt", "user.key")):
        own.cert_chain_pems[0].write_to_path(str(folder / cert))
        own.private_key_pem.write_to_path(str(folder / key))
    (folder / "billing.keytab").write_bytes(b"\x05\x02")
    (folder / "token.jwt").write_text(token() + "\n")
    key = trustme.CA(key_type=trustme.KeyType.RSA).private_key_pem
    key.write_to_path(str(folder / "billing-rsa.pem"))
    return folder


@pytest.fixture
def world(folder, tmp_path, monkeypatch):
    """The surroundings of the recipes: files, the environment, the system's authorities, and others' packages."""
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "ca.pem"))
    for name in ("KAFKA_PASSWORD", "API_SECRET", "EVENT_HUBS_CONNECTION_STRING", "CLIENT_SECRET"):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("API_KEY", "billing")
    monkeypatch.delenv("KEY_PASSWORD", raising=False)
    monkeypatch.setitem(sys.modules, "gssapi", None)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")  # not a secret: it is logged
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_CONFIG_FILE", "none")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    signer = types.ModuleType("aws_msk_iam_sasl_signer")
    signer.MSKAuthTokenProvider = types.SimpleNamespace(
        generate_auth_token=lambda region: (token(), int((time.time() + 900) * 1000))
    )
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", signer)
    azure = types.ModuleType("azure.identity")
    access_token = types.SimpleNamespace(token=token(), expires_on=int(time.time() + 600))
    azure.DefaultAzureCredential = lambda: types.SimpleNamespace(get_token=lambda *scopes: access_token)
    monkeypatch.setitem(sys.modules, "azure", types.ModuleType("azure"))
    monkeypatch.setitem(sys.modules, "azure.identity", azure)


@pytest.fixture(autouse=True)
def _no_secrets(caplog):
    """Search everything that is logged, also at DEBUG, for the password and the beginning of a token."""
    caplog.set_level(logging.DEBUG)
    yield
    lines = [record.getMessage() for when in ("setup", "call") for record in caplog.get_records(when)]
    assert not [line for line in lines if SECRET in line or "eyJ" in line]


@pytest.fixture
def token_endpoint(folder, monkeypatch):
    """The URL of a token endpoint that knows the client billing; GET is for the machine's managed identity."""
    # Verifies what the client has signed with the key in its file.
    key = serialization.load_pem_private_key((folder / "billing-rsa.pem").read_bytes(), None).public_key()

    def is_billings(form):
        audience = f"http://127.0.0.1:{server.server_port}/realms/shop"
        claims = jwt.decode(form["client_assertion"], key, ["RS256"], audience=audience, options={"require": ["jti"]})
        return claims["iss"] == claims["sub"] == form["client_id"] == "billing"

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            pair = base64.b64encode(f"billing:{SECRET}".encode()).decode()
            has_secret = self.headers["Authorization"] == f"Basic {pair}"
            self.answer(has_secret or is_billings(form))

        def do_GET(self):
            query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
            self.answer(self.headers["Metadata"] == "true" and query.keys() >= {"api-version", "resource"})

        def answer(self, known):
            answer = {"access_token": token(), "expires_in": 600} if known else {"error": "invalid_client"}
            body = json.dumps(answer).encode()
            self.send_response(200 if known else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=functools.partial(server.serve_forever, poll_interval=0.01))
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr("thinconsumer.sasl.azure_imds.IMDS_URL", f"{url}/metadata/identity/oauth2/token")
        yield url
        server.shutdown()
        thread.join()


def listener(protocol, *, client_auth="none"):
    """Return the settings of a broker that all recipes with this protocol can log in to."""
    settings = {"security.protocol": protocol, "connection.failed.authentication.delay.ms": 1}
    if protocol.endswith("SSL"):
        settings |= {"ssl.keystore.location": "broker.pem", "ssl.client.auth": client_auth}
        settings["ssl.truststore.location"] = "client-ca.pem"
    if protocol.startswith("SASL"):
        settings["sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
        settings["users"] = dict.fromkeys(USERS, SECRET)
        settings["sasl.oauthbearer.key"] = TOKEN_KEY
    return settings


def alternate(broker, consumer, done):
    """Let consumer and broker work in turn until ``done`` returns True; the consumer's errors are raised."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        records = [record for records in consumer.poll(timeout_ms=0).values() for record in records]
        if done(records):
            return
        broker.step(0.002)
    pytest.fail(f"nothing for {PATIENCE_S} s: {consumer.health()}")


def check_reads(broker, consumer):
    """Check that the consumer reads a record of the broker's topic orders."""

    def is_read(records):
        if consumer.assignment():
            broker.produce("orders", [b"one"])
        return bool(records)

    alternate(broker, consumer, is_read)


class SparkReader:
    """Spark's reader: takes options and loads them into a consumer, as a task does."""

    def __init__(self):
        self.options = {}

    def format(self, name):
        assert name == "thinconsumer"
        return self

    def option(self, name, value):
        self.options[name.lower()] = value
        return self

    def load(self):
        consumer = Consumer.from_config(consumer_config(parse(self.options).kafka))
        consumer.assign([TopicPartition("orders", 0)])
        return consumer


def run(source, **names):
    names |= {"os": os, "Consumer": Consumer}
    exec(compile(source, str(PAGE), "exec"), names)
    return names


@pytest.mark.parametrize("source", blocks("python"))
def test_recipes(source, world, token_endpoint):
    """Each recipe reads a record from an embedded broker, or is built if that broker lacks the mechanism."""
    if "Broker(" in source or "BrokerProcess(" in source:
        names = run(source)
        assert "records" not in names or names["records"]
        return
    if "GSSAPI" in source or "AWS_MSK_IAM" in source:
        run(source)["consumer"].close()
        return
    protocol = "SASL_SSL" if "SASL_SSL" in source else "SSL"
    client_auth = "required" if "ssl_certfile" in source else "none"
    with EmbeddedBroker(topics={"orders": 1}, security=listener(protocol, client_auth=client_auth)) as broker:
        source, count = ADDRESS.subn(broker.bootstrap_servers, source)
        assert count == 1
        source = source.replace("https://keycloak.example.com", token_endpoint)
        names = run(source, spark=types.SimpleNamespace(read=SparkReader()))
        consumer = names["orders" if "spark" in source else "consumer"]
        check_reads(broker, consumer)
        consumer.close(timeout_ms=0)  # the broker cannot answer meanwhile


@pytest.mark.parametrize("source", blocks("properties"))
def test_properties(source, world):
    settings = parse_properties(source)
    if "# broker.properties" in source:
        assert ListenerSecurity.of(settings).uses_sasl
        return
    with EmbeddedBroker(topics={"orders": 1}, security=listener("SASL_SSL")) as broker:
        consumer = Consumer.from_config({**settings, "bootstrap.servers": broker.bootstrap_servers})
        consumer.assign([TopicPartition("orders", 0)])
        check_reads(broker, consumer)
        consumer.close(timeout_ms=0)


# -- errors


def table_rows(heading):
    section = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows[1:]]


def error_rows():
    name, found = "", []
    for row in table_rows("Errors"):
        name = row[0] or name
        found.append((re.findall(r"`(\w+)`", name), row[1].strip("`")))
    return found


def failure(security, options):
    """Return the error that a consumer raises with these options."""
    options = {"security_protocol": "SSL", "ssl_cafile": "ca.pem", "bootstrap_timeout_ms": 200, **options}
    with EmbeddedBroker(topics={"orders": 1}, security=security) as broker:
        consumer = Consumer(bootstrap_servers=broker.bootstrap_servers, **options)
        consumer.assign([TopicPartition("orders", 0)])
        with pytest.raises(KafkaError) as caught:
            alternate(broker, consumer, bool)
        consumer.close(timeout_ms=0)
    return caught.value


PASSWORD = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "billing", "sasl_plain_password": "wrong"}
LOGIN = {"security_protocol": "SASL_PLAINTEXT", "ssl_cafile": None, **PASSWORD}
PLAINTEXT = {"security_protocol": "PLAINTEXT", "ssl_cafile": None}
#: By the row's text: the listener's settings, and the client's options.
FAILURES = {
    "set ssl_cafile or ssl_truststore_location": (listener("SSL"), {"ssl_cafile": "client-ca.pem"}),
    "the peer requires a client certificate": (listener("SSL", client_auth="required"), {}),
    "share no TLS version": (
        listener("SSL") | {"ssl.enabled.protocols": "TLSv1.2"}, {"ssl_enabled_protocols": ["TLSv1.3"]},
    ),
    "the port does not use TLS": ({}, {}),
    "the listener may require a login": (listener("SASL_PLAINTEXT"), PLAINTEXT),
    "check sasl_plain_username, sasl_plain_password": (listener("SASL_PLAINTEXT"), LOGIN),
    "the listener may not use SASL": ({}, LOGIN),
    "sasl_mechanism='GSSAPI' needs the package": (
        listener("SASL_SSL"), {"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"},
    ),
    "sasl_aws_msk_iam_region is needed": (
        listener("SASL_SSL"), {"security_protocol": "SASL_SSL", "sasl_mechanism": "AWS_MSK_IAM"},
    ),
    "but this listener offers": (
        {"security.protocol": "SASL_PLAINTEXT", "sasl.enabled.mechanisms": "SCRAM-SHA-512"}, LOGIN,
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", FAILURES)
def test_errors_have_the_class_and_text_of_their_row(text, world):
    ((names, shown),) = [row for row in error_rows() if text in row[1]]
    error = failure(*FAILURES[text])
    assert isinstance(error, getattr(thinconsumer.errors, names[0])), error
    assert all(part.strip() in str(error) for part in shown.split("...")), error


def test_texts_of_errors_are_those_of_the_package():
    """Each part of a row's text, between dots, is in a string of the package."""
    sources = (path.read_text(encoding="utf-8") for path in Path(thinconsumer.__file__).parent.rglob("*.py"))
    everything = re.sub(r'"\s*\n\s*f?"', "", "\n".join(sources))  # literals that Python joins
    for _, shown in error_rows():
        if any(text in shown for text in FAILURES):
            continue  # it is raised above
        for part in shown.removeprefix("no ").split("..."):
            assert part.strip() in everything, part


# -- the table of names


def test_the_table_of_names_is_up_to_date():
    """Run ``python docs/generate_options.py`` and commit the page when this fails."""
    assert load("generate_options").security_page(TEXT) == TEXT


def test_kafka_pythons_names_are_its_own():
    names = load("generate_options").names_elsewhere()
    theirs = {name for name in kafka.KafkaConsumer.DEFAULT_CONFIG if name.startswith(("ssl_", "sasl_", "security_"))}
    assert {name for columns in names.values() for name in columns[0]} == theirs
    assert {name for name, columns in names.items() if columns[0] == [name]} == theirs


def test_librdkafkas_names_are_its_own():
    confluent = pytest.importorskip("confluent_kafka")
    for columns in load("generate_options").names_elsewhere().values():
        for name in columns[2]:
            try:
                confluent.Consumer({"group.id": "g", "log_level": 0, name: "x"}).close()
            except (confluent.KafkaException, TypeError) as error:
                assert "No such configuration property" not in str(error)


def test_from_config_takes_the_names_of_java_and_librdkafka():
    """Names without a meaning here would be unknown options; wrong values are another error."""
    for columns in load("generate_options").names_elsewhere().values():
        for name in {*columns[1], *columns[2]} - {"sasl.login.callback.handler.class"}:
            if not name.startswith("JAAS"):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    with pytest.raises(KafkaError) as caught:
                        Consumer.from_config({"bootstrap.servers": "", name: "x"})
                assert "unknown option" not in str(caught.value)
                assert f"{name} is refused" not in str(caught.value)
