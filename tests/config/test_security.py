"""The options of TLS and SASL: the same for all clients, hidden in repr, and pickled whole."""

import dataclasses
import inspect
import pickle
import re
from pathlib import Path

import pytest

from thinconsumer.config import OPTIONS, ClientOptions, ConsumerConfig, SecurityOptions
from thinconsumer.member import GroupMemberOptions
from thinconsumer.produce.settings import ProducerSettings

CLIENTS = (ConsumerConfig, ClientOptions, GroupMemberOptions, ProducerSettings)
NAMES = list(SecurityOptions.options())


@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_has_the_same_declarations_at_the_end(client):
    options = client.options()
    assert list(options)[-len(NAMES) :] == NAMES
    assert all(options[name] is OPTIONS[name] for name in NAMES)


@pytest.mark.parametrize("client", CLIENTS)
def test_repr_shows_changed_options_without_secrets(client):
    config = client.from_options(
        bootstrap_servers="a", security_protocol="sasl_ssl", sasl_mechanism="PLAIN",
        sasl_plain_username="me", sasl_plain_password="c4nary",
    )  # fmt: skip
    assert repr(config) == (
        f"{client.__name__}(bootstrap_servers='a:9092', security_protocol='SASL_SSL', sasl_mechanism='PLAIN', "
        "sasl_plain_username='me', sasl_plain_password='***')"
    )
    assert str(config) == repr(config)
    copy = pickle.loads(pickle.dumps(config))
    assert copy == config
    assert copy.sasl_plain_password == "c4nary"
    assert "c4nary" not in repr(copy)


@pytest.mark.parametrize("client", CLIENTS)
def test_configs_are_compared_by_type_and_values(client):
    assert client() == client(client_id=client().client_id)
    assert client() != client(client_id="other")
    assert client() != "client"
    assert client() != type("Other", (client,), {})()
    assert len({client(), client(), client(client_id="other")}) == 2
    assert dataclasses.replace(client(), client_id="other").client_id == "other"
    with pytest.raises(dataclasses.FrozenInstanceError):
        client().client_id = "other"


def test_the_constructor_refuses_unknown_names_without_their_values():
    with pytest.raises(TypeError, match="ClientOptions has no options sasl_plain_pasword$"):
        ClientOptions(client_id="x", sasl_plain_pasword="c4nary")


def test_importing_the_options_imports_neither_ssl_nor_other_slow_modules():
    """Each takes milliseconds at the start of every process with a consumer."""
    for file in Path(inspect.getfile(SecurityOptions)).parent.glob("*.py"):
        slow = re.search(r"^(import|from) (ssl|socket|pathlib|urllib|base64)\b", file.read_text("utf-8"), re.MULTILINE)
        assert slow is None, f"{file.name}: {slow}"


def test_options_with_a_mapping_have_a_hash():
    def made(value):
        given = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": len}
        return ClientOptions.from_options(**given, sasl_oauthbearer_extensions={"pool": value})

    assert len({made("a"), made("a"), made("b")}) == 2
