"""Certificates for tests: a broker process with TLS, clients with and without a certificate, and the command line."""

import sys

import pytest

from thinconsumer import Consumer, SslAuthenticationFailedError, TopicPartition
from thinconsumer.cli.run import main
from thinconsumer.testing import BrokerProcess, CertificateAuthority
from thinconsumer_testing.broker.security import ListenerSecurity


@pytest.fixture(scope="module")
def authority():
    return CertificateAuthority()


@pytest.fixture(scope="module")
def broker(authority):
    """A broker process that requires client certificates."""
    security = ListenerSecurity(security_protocol="SSL", **authority.broker_settings(client_auth="required"))
    with BrokerProcess(topics={"orders": 1}, security=security) as process:
        yield process


def values(broker, **options):
    servers = broker.bootstrap_servers
    with Consumer(
        bootstrap_servers=servers, security_protocol="SSL", auto_offset_reset="earliest", **options
    ) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        return [record.value for record in consumer.read_to_end(timeout_ms=10_000)]


def test_a_client_with_a_certificate_reads(broker, authority):
    assert values(broker, **authority.client_options("alice")) == []


def test_a_client_without_a_certificate_is_rejected(broker, authority):
    with pytest.raises(SslAuthenticationFailedError, match="requires a client certificate"):
        values(broker, **authority.client_options())


def test_commands_take_the_options_from_a_file(broker, authority, tmp_path, capsys):
    options = {"security_protocol": "SSL", **authority.client_options("alice")}
    lines = [f"{name.replace('_', '.')}={value}" for name, value in options.items()]
    file = tmp_path / "client.properties"
    file.write_text("\n".join(line.rstrip("\n").replace("\n", "\\n") for line in lines))
    assert main(["topics", "list", "--bootstrap-server", broker.bootstrap_servers, "--command-config", str(file)]) == 0
    assert "orders" in capsys.readouterr().out


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "trustme", None)
    with pytest.raises(ImportError, match="pip install trustme"):
        CertificateAuthority()
