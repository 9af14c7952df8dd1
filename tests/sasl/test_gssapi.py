"""GSSAPI, over a stand-in for the small part of the package ``gssapi`` that the mechanism uses."""

import enum
import sys
from types import SimpleNamespace

import pytest

from thinconsumer.config import ClientOptions
from thinconsumer.errors import KafkaConfigurationError, KafkaProtocolError, SaslAuthenticationFailedError
from thinconsumer.sasl.gssapi import Gssapi, answer_offer, memory_cache


class GSSError(Exception):
    pass


class Flag(enum.IntEnum):
    mutual_authentication = 2
    out_of_sequence_detection = 8
    integrity = 32


class Context:
    """Completes after ``tokens`` were exchanged; wraps a message as ``<message>``."""

    tokens = (b"token-1", b"token-2")
    actual_flags = frozenset(Flag)
    lifetime = 600

    def __init__(self, **arguments):
        self.arguments = arguments
        self.complete = False
        self.received = []
        self._left = list(self.tokens)

    def step(self, challenge):
        if challenge == b"bad":
            raise GSSError("Server not found in Kerberos database")
        self.received.append(challenge)
        token = self._left.pop(0)
        self.complete = not self._left
        return token

    def unwrap(self, message):
        if not message.startswith(b"<"):
            raise GSSError("a token had an invalid MIC")
        return SimpleNamespace(message=message[1:-1])

    def wrap(self, message, is_confidential):
        assert not is_confidential
        return SimpleNamespace(message=b"<%b>" % message)


@pytest.fixture
def fake(monkeypatch):
    """Put the stand-in in the place of ``gssapi``; its ``made`` lists what was created."""
    made = []

    def factory(kind):
        def make(*args, **arguments):
            made.append((kind, *args, arguments))
            return made[-1]

        return make

    def new_context(**arguments):
        made.append(Context(**arguments))
        return made[-1]

    module = SimpleNamespace(
        Name=factory("name"),
        Credentials=factory("credentials"),
        SecurityContext=new_context,
        NameType=SimpleNamespace(hostbased_service="hostbased", kerberos_principal="principal"),
        MechType=SimpleNamespace(kerberos="krb5"),
        RequirementFlag=Flag,
        exceptions=SimpleNamespace(GSSError=GSSError),
        made=made,
    )
    monkeypatch.setitem(sys.modules, "gssapi", module)
    return module


def mechanism(host="b", *, wall=1000.0, **options):
    return Gssapi(ClientOptions(**{f"sasl_kerberos_{name}": value for name, value in options.items()}), host, wall)


def test_a_login_with_mutual_authentication(fake):
    login = mechanism("broker-1")
    assert login.credentials_expire_at is None
    assert login.start() == b"token-1"
    assert login.respond(b"reply") == b"token-2"
    assert login.respond(b"<\x07\x00\xff\xff>") == b"<\x01\0\0\0>"
    assert login.respond(b"") is None
    assert login.credentials_expire_at == 1600.0
    name, context = fake.made
    assert name == ("name", "kafka@broker-1", {"name_type": "hostbased"})
    assert context.received == [None, b"reply"]
    assert context.arguments == {
        "name": name,
        "creds": None,
        "mech": "krb5",
        "usage": "initiate",
        "flags": [Flag.mutual_authentication, Flag.integrity, Flag.out_of_sequence_detection],
    }


def test_an_empty_message_is_sent_when_the_context_is_complete_without_a_token(fake, monkeypatch):
    """RFC 4752: the server then sends its offer of security layers."""
    monkeypatch.setattr(Context, "tokens", (b"token-1", None))
    monkeypatch.setattr(Context, "lifetime", None)
    login = mechanism()
    login.start()
    assert login.respond(b"reply") == b""
    assert login.respond(b"<\x01\0\0\0>") == b"<\x01\0\0\0>"
    assert login.credentials_expire_at is None


def test_credentials_of_a_principal_and_keytab(fake):
    mechanism(principal="alice@REALM", keytab="/etc/alice.keytab").start()
    _, principal, credentials, context = fake.made
    assert principal == ("name", "alice@REALM", {"name_type": "principal"})
    store = {"client_keytab": "/etc/alice.keytab", "ccache": memory_cache("alice@REALM", "/etc/alice.keytab")}
    assert credentials == ("credentials", {"usage": "initiate", "name": principal, "store": store})
    assert context.arguments["creds"] is credentials


def test_principals_and_keytabs_do_not_share_a_ticket_cache():
    caches = {memory_cache(principal, keytab) for principal in ("", "a", "b") for keytab in ("k", "l", "a")}
    assert len(caches) == 9
    assert all(cache.startswith("MEMORY:thinconsumer-") for cache in caches)


def test_credentials_of_a_keytab_alone(fake):
    mechanism(keytab="/etc/k").start()
    assert "name" not in fake.made[1][1]


def test_a_target_replaces_service_and_host(fake):
    mechanism(name="kafka@other").start()
    assert fake.made[0][1] == "kafka@other"
    ready = object()
    mechanism(name=ready).start()
    assert fake.made[-1].arguments["name"] is ready


def test_a_broker_that_does_not_prove_its_identity_is_refused(fake, monkeypatch):
    monkeypatch.setattr(Context, "actual_flags", frozenset([Flag.integrity]))
    login = mechanism()
    login.start()
    with pytest.raises(SaslAuthenticationFailedError, match="mutual authentication"):
        login.respond(b"reply")


@pytest.mark.parametrize("offer", [b"", b"\x01\0\0", b"\x01\0\0\0\0"])
def test_a_malformed_offer_is_refused(offer):
    with pytest.raises(KafkaProtocolError, match=f"{len(offer)} bytes"):
        answer_offer(offer)


@pytest.mark.parametrize("flags", [0, 2, 4, 6])
def test_a_required_security_layer_is_refused(flags):
    with pytest.raises(SaslAuthenticationFailedError, match="security layer"):
        answer_offer(bytes([flags, 0, 0, 0]))


@pytest.mark.parametrize("messages", [[b"bad"], [b"reply", b"unwrapped"]])
def test_errors_of_the_library_name_the_remedy(fake, messages):
    *before, last = messages
    login = mechanism()
    login.start()
    for message in before:
        login.respond(message)
    with pytest.raises(SaslAuthenticationFailedError, match="kafka@b as the default principal.*: .*kinit") as info:
        login.respond(last)
    assert isinstance(info.value.__cause__, GSSError)


@pytest.mark.parametrize("error", [GSSError, NotImplementedError, ValueError])
def test_missing_credentials_are_reported(fake, error):
    def no_credentials(**arguments):
        raise error("No Kerberos credentials available")

    fake.SecurityContext = no_credentials
    with pytest.raises(SaslAuthenticationFailedError, match="No Kerberos credentials"):
        mechanism().start()


def test_a_message_after_the_end_is_refused(fake):
    login = mechanism()
    login.start()
    login.respond(b"reply")
    login.respond(b"<\x01\0\0\0>")
    with pytest.raises(KafkaProtocolError, match="after the end"):
        login.respond(b"more")


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(KafkaConfigurationError, match=r"thinconsumer\[gssapi\]"):
        mechanism()


def test_a_servers_text_is_shown(fake):
    assert mechanism().shown("no\n") == r"no\n"
