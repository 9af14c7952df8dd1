"""``kafka.*`` options of source and sink: their names, secrets, objects that text cannot hold, and files of a host."""

from __future__ import annotations

import pickle
import platform

import pytest

from thinconsumer import Consumer, KafkaConfigurationError, SaslAuthenticationFailedError, TopicPartition
from thinconsumer.config import ConsumerConfig, SecurityOptions, dotted
from thinconsumer.config.unsupported import ALIASES
from thinconsumer.spark.cluster_client import ClusterClient
from thinconsumer.spark.options import OBJECTS, SECURITY_NAMES, consumer_config, parse
from thinconsumer.spark.planner import OffsetRange
from thinconsumer.spark.reading import read
from thinconsumer.spark.writing import parse_write
from thinconsumer.testing import MemoryCluster
from thinconsumer_testing.broker.security import ListenerSecurity

SERVERS = {"kafka.bootstrap.servers": "localhost:1", "kafka.security.protocol": "SASL_SSL"}
SECRET = "canary-7f3a"
PEM = f"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n# {SECRET}"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
LOGIN = {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.plain.username": "alice", "kafka.sasl.plain.password": SECRET}


def source(**given):
    return parse({**SERVERS, "subscribe": "t", **given})


def sink(**given):
    return parse_write({**SERVERS, "topic": "t", **given}, [("value", "string")])


BOTH = pytest.mark.parametrize("use", [source, sink])


@pytest.fixture
def ca_file(tmp_path):
    path = tmp_path / "ca.pem"
    path.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    return path


def problem(use, **given) -> str:
    with pytest.raises(KafkaConfigurationError) as error:
        use(**given)
    return str(error.value)


def checked(use, **given):
    """Return the checked options of the client that a task makes."""
    options = use(**given)
    return options.producer() if use is sink else ConsumerConfig.from_config(consumer_config(options.kafka))


EQUAL = {
    "names of librdkafka": {
        "kafka.sasl.mechanisms": "PLAIN",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": SECRET,
    },
    "JAAS": {
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": "kafkashaded.org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="alice" password="{SECRET}";',
    },
}


@BOTH
@pytest.mark.parametrize("spelt", EQUAL)
def test_all_spellings_mean_the_same(use, spelt):
    found, expected = checked(use, **EQUAL[spelt]), checked(use, **LOGIN)
    for name in ("security_protocol", "sasl_mechanism", "sasl_plain_username", "sasl_plain_password"):
        assert getattr(found, name) == getattr(expected, name)


@BOTH
@pytest.mark.parametrize("name", ["kafka.proxy.url", "kafka.socks5.proxy"])
def test_the_login_of_a_proxy_is_not_shown(use, name):
    url = f"http://alice:{SECRET}@proxy:3128"
    assert SECRET not in repr(use(**LOGIN, **{name: url}).kafka)
    assert checked(use, **LOGIN, **{name: url}).proxy_url == url


@BOTH
def test_librdkafkas_names_of_files_reach_the_client(use, ca_file):
    assert checked(use, **LOGIN, **{"kafka.ssl.ca.location": str(ca_file)}).ssl_cafile == str(ca_file)
    message = problem(use, **LOGIN, **{"kafka.ssl.ca.location": str(ca_file), "kafka.ssl.cafile": str(ca_file)})
    assert "ssl.ca.location and ssl.cafile are the same option" in message


@BOTH
@pytest.mark.parametrize("name", SECURITY_NAMES)
def test_a_missing_prefix_is_pointed_out(use, name):
    """Without it, Spark passes the option on, but Kafka's client would not get it: a password would be missing."""
    message = problem(use, **LOGIN, **{name: SECRET})
    assert f"unknown option {name!r}; did you mean 'kafka.{name}'?" in message
    assert SECRET not in message


@BOTH
@pytest.mark.parametrize("name", OBJECTS)
def test_objects_are_refused_with_the_options_to_set_instead(use, name):
    message = problem(use, **LOGIN, **{f"kafka.{name}": SECRET})
    assert f"kafka.{name} is refused: Spark passes options as text, not as objects: set " in message
    assert SECRET not in message


@BOTH
@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("kafka.ssl.engine.factory.class", "set ssl.truststore.location"),
        ("kafka.sasl.login.callback.handler.class", "set sasl.oauthbearer.token.endpoint.url"),
    ],
)
def test_advice_to_pass_an_object_is_followed_by_what_to_do_in_spark(use, name, advice):
    message = problem(use, **LOGIN, **{name: "com.example.Custom"})
    assert "Java classes cannot be loaded" in message
    assert f"Spark passes options as text, not as objects: {advice}" in message


@BOTH
def test_oauthbearer_without_an_endpoint_names_the_options_that_work_in_spark(use):
    message = problem(use, **{"kafka.sasl.mechanism": "OAUTHBEARER"})
    assert "Spark passes options as text, not as objects: set sasl.oauthbearer.token.endpoint.url" in message


@BOTH
def test_java_key_stores_are_refused_with_the_command_that_converts_them(use, tmp_path):
    path = tmp_path / "client.truststore.jks"
    path.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    message = problem(use, **LOGIN, **{"kafka.ssl.truststore.location": str(path)})
    assert "keytool -importkeystore" in message
    assert f"on host {platform.node()!r}" in message


@BOTH
@pytest.mark.parametrize(
    "given",
    [
        {**LOGIN, "kafka.ssl.truststore.location": "/nowhere/trust.p12"},
        {**LOGIN, "kafka.ssl.key.location": "/nowhere/key.pem"},
        {
            "kafka.sasl.mechanism": "GSSAPI",
            "kafka.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
            'keyTab="/nowhere/keytab";',
        },
    ],
)
def test_errors_about_files_name_the_host(use, given):
    message = problem(use, **given)
    assert f"on host {platform.node()!r}: " in message
    assert "the file cannot be read" in message


@BOTH
def test_other_errors_name_no_host(use):
    assert "on host" not in problem(use, **LOGIN, **{"kafka.security.protocol": "TLS"})


def test_tasks_and_planning_name_the_host_on_which_a_file_is_missing(ca_file):
    options = source(**LOGIN, **{"kafka.ssl.cafile": str(ca_file)})
    ca_file.unlink()
    task = read(OffsetRange(TopicPartition("t", 0), 0, 1, b"\0" * 16), options, ("value",), make=Consumer.from_config)
    with pytest.raises(KafkaConfigurationError, match=f"on host '{platform.node()}': ssl.cafile="):
        next(task)
    client = ClusterClient(options, sleep=pytest.fail)
    with pytest.raises(KafkaConfigurationError, match=f"on host '{platform.node()}': ssl.cafile="):
        client.partitions()
    with pytest.raises(KafkaConfigurationError, match=f"on host '{platform.node()}': ssl.cafile="):
        client.committed("g", [TopicPartition("t", 0)])


def test_write_tasks_name_the_host_on_which_a_file_is_missing(ca_file):
    pa = pytest.importorskip("pyarrow")
    from thinconsumer.spark.writing import write

    settings = sink(**LOGIN, **{"kafka.ssl.cafile": str(ca_file)})
    batch = pa.RecordBatch.from_arrays([pa.array(["v"])], names=["value"])
    with pytest.raises(
        KafkaConfigurationError, match=f"on host '{platform.node()}': ssl_cafile.* has a malformed certificate"
    ):
        write([batch], settings)
    ca_file.unlink()
    with pytest.raises(KafkaConfigurationError, match=f"on host '{platform.node()}': ssl.cafile="):
        write([batch], settings)


def test_planning_does_not_repeat_a_rejected_login():
    security = ListenerSecurity(
        security_protocol="SASL_PLAINTEXT", sasl_enabled_mechanisms=("SCRAM-SHA-256",), users={"alice": "right"}
    )
    kafka = MemoryCluster(1, {"t": 1}, security=security)
    servers = {"kafka.bootstrap.servers": ",".join(kafka.bootstrap_servers)}
    login = {**LOGIN, "kafka.sasl.mechanism": "SCRAM-SHA-256", "kafka.security.protocol": "SASL_PLAINTEXT"}
    options = source(**{**login, **servers})
    client = ClusterClient(
        options, connect=lambda config: Consumer.from_config(config, driver=kafka.driver()), sleep=pytest.fail
    )
    with pytest.raises(SaslAuthenticationFailedError, match="sasl_plain_password"):
        client.partitions()


SECRETS = {
    "sasl.plain.password": SECRET,
    "sasl.password": SECRET,
    "sasl.jaas.config": f'{SCRAM} username="alice" password="{SECRET}";',
    "ssl.password": SECRET,
    "ssl.key.password": SECRET,
    "ssl.truststore.password": SECRET,
    "ssl.keystore.password": SECRET,
    "ssl.keystore.key": PEM,
    "ssl.key.pem": PEM,
    "ssl.truststore.certificates": PEM,
    "sasl.oauthbearer.client.credentials.client.secret": SECRET,
    "sasl.oauthbearer.client.secret": SECRET,
    "sasl.oauthbearer.assertion.private.key.pem": PEM,
    "sasl.oauthbearer.assertion.private.key.passphrase": SECRET,
    "sasl.oauthbearer.config": f"query=resource={SECRET}",
    "sasl.oauthbearer.extensions": f"a={SECRET}",
    "sasl.aws.msk.iam.role.external.id": SECRET,
    "sasl.jass.config": SECRET,
    "sasl_password": SECRET,
}


def test_every_secret_option_is_listed():
    secret = {dotted(name) for name, option in SecurityOptions.options().items() if option.kind.is_secret}
    aliases = {spelt for spelt, name in ALIASES.items() if dotted(name) in secret}
    assert secret | aliases <= SECRETS.keys() | {"ssl.keystore.certificate.chain", "ssl.ca.pem", "ssl.certificate.pem"}


@BOTH
@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.filterwarnings("ignore::thinconsumer.config.ConfigurationWarning")
def test_no_error_repr_or_traceback_with_locals_shows_a_secret(use, name):
    given = {"kafka.security.protocol": "PLAINTEXT", f"kafka.{name}": SECRETS[name]}
    try:
        options = use(**given)
    except KafkaConfigurationError as error:
        shown = str(error)
    else:
        copy = pickle.loads(pickle.dumps(options))
        assert copy.kafka == options.kafka
        assert copy.kafka[name] == SECRETS[name]
        shown = f"{options!r}{options.kafka!r}{copy!r}{copy.kafka!r}{consumer_config(options.kafka)!r}"
    assert SECRET not in shown
