"""SCRAM against the RFCs' examples, an independent server, kafka-python, and hostile servers."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.errors import IllegalArgumentError, KafkaError, KafkaProtocolError, SaslAuthenticationFailedError
from thinconsumer.sasl import scram
from thinconsumer.sasl.scram import Scram

SECRET = "pencil-hush-1"
NONCE = "rOprNGfwEbeRWgbNEkqO"
SALT = base64.b64encode(b"0123456789abcdef").decode()


class Server:
    """A SCRAM server that keeps StoredKey and ServerKey, and recovers ClientKey from the proof (RFC 5802)."""

    def __init__(self, mechanism, users, *, iterations=4096, salt=b"0123456789abcdef", nonce="%server-part"):
        self.hash = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
        self.nonce, self.salt, self.iterations = nonce, salt, iterations
        self.users = {name: self.keys(password) for name, password in users.items()}

    def hmac(self, key, text):
        return hmac.new(key, text, self.hash).digest()

    def keys(self, password):
        salted = hashlib.pbkdf2_hmac(self.hash, password.encode(), self.salt, self.iterations)
        return hashlib.new(self.hash, self.hmac(salted, b"Client Key")).digest(), self.hmac(salted, b"Server Key")

    def first(self, message):
        assert message.startswith(b"n,,n=")
        self.client_first = message[3:]
        name, nonce = self.client_first.decode().removeprefix("n=").split(",r=")
        assert "," not in name
        self.user = name.replace("=2C", ",").replace("=3D", "=")
        self.full_nonce = nonce + self.nonce
        salt = base64.b64encode(self.salt).decode()
        self.server_first = f"r={self.full_nonce},s={salt},i={self.iterations}".encode()
        return self.server_first

    def final(self, message):
        without_proof, proof = message.rsplit(b",p=", 1)
        assert without_proof == f"c=biws,r={self.full_nonce}".encode()
        signed = b",".join([self.client_first, self.server_first, without_proof])
        stored_key, server_key = self.users[self.user]
        signature = self.hmac(stored_key, signed)
        client_key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        if hashlib.new(self.hash, client_key).digest() != stored_key:
            return b"e=invalid-proof"
        return b"v=" + base64.b64encode(self.hmac(server_key, signed))


def begun(mechanism="SCRAM-SHA-256", username="user", password=SECRET):
    login = Scram(mechanism, username, password, NONCE)
    return login, login.start()


def waiting_for_proof():
    """Return a login that has sent its proof, the server, and the server's last message."""
    login, first = begun()
    server = Server("SCRAM-SHA-256", {"user": SECRET})
    return login, server.final(login.respond(server.first(first)))


def test_rfc_7677_example():
    login = Scram("SCRAM-SHA-256", "user", "pencil", NONCE)
    assert login.start() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = rb"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    proof = b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    answer = login.respond(b"r=%b,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096" % nonce)
    assert answer == b"c=biws,r=%b,p=%b" % (nonce, proof)
    assert login.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None
    assert repr(login) == "<Scram SCRAM-SHA-256 'user'>"


names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(sorted(scram.HASHES)), names, names, st.binary(min_size=1, max_size=64))
def test_every_user_and_password_logs_in(mechanism, username, password, salt):
    login, first = begun(mechanism, username, password)
    server = Server(mechanism, {username: password}, salt=salt)
    assert login.respond(server.final(login.respond(server.first(first)))) is None
    assert server.user == username


def test_kafka_python_computes_the_same_messages():
    kafka_python = pytest.importorskip("kafka.net.sasl.scram").ScramClient("user", SECRET, "SCRAM-SHA-512")
    kafka_python.nonce = NONCE.encode()
    login, first = begun("SCRAM-SHA-512")
    assert first == kafka_python.first_message()
    challenge = Server("SCRAM-SHA-512", {"user": SECRET}, iterations=5000).first(first)
    kafka_python.process_server_first_message(challenge)
    assert login.respond(challenge) == kafka_python.final_message()
    assert login.respond(b"v=" + base64.b64encode(kafka_python.server_signature)) is None


def test_a_wrong_password_is_reported_by_the_server():
    login, first = begun(password="wrong")
    server = Server("SCRAM-SHA-256", {"user": SECRET})
    with pytest.raises(SaslAuthenticationFailedError, match="rejected the SCRAM login: invalid-proof"):
        login.respond(server.final(login.respond(server.first(first))))


def test_a_server_that_does_not_know_the_password_is_refused():
    login, first = begun()
    server = Server("SCRAM-SHA-256", {"user": "guess"})
    login.respond(server.first(first))
    pretended = base64.b64encode(bytes(32))
    with pytest.raises(SaslAuthenticationFailedError, match="signature is wrong") as caught:
        login.respond(b"v=" + pretended)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("after", [0, 1])
def test_success_without_proof_is_refused(after):
    login, _ = waiting_for_proof() if after else begun()
    with pytest.raises(SaslAuthenticationFailedError, match="without proving"):
        login.respond(b"")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (f"r={NONCE}x,s={SALT},i={2**31}", "2147483648 iterations"),
        (f"r={NONCE}x,s={SALT},i=1000001", "1000001 iterations"),
        (f"r={NONCE}x,s={SALT},i={'9' * 5000}", "9" * 20 + " iterations"),
        (f"r={NONCE}x,s={SALT},i=4095", "4095 iterations"),
        (f"r={NONCE}x,s={SALT},i=0", "0 iterations"),
        (f"r={NONCE}x,s={SALT},i=-1", "malformed"),
        (f"r={NONCE}x,s={SALT},i=", "malformed"),
        (f"r={NONCE}x,s={SALT},i=\u0664096", "malformed"),
        (f"r={NONCE}x,s={SALT}", "malformed"),
        (f"s={SALT},r={NONCE}x,i=4096", "malformed"),
        (f"r={NONCE}x,s={SALT},i=4096,", "malformed"),
        (f"r={NONCE},s={SALT},i=4096", "nonce"),
        (f"r=another-nonce,s={SALT},i=4096", "nonce"),
        (f"r={NONCE[:-1]},s={SALT},i=4096", "nonce"),
        (f"r={NONCE}x,s=abc,i=4096", "base64"),
        (f"r={NONCE}x,s={base64.b64encode(bytes(1025)).decode()},i=4096", "salt has 1025 bytes"),
        (f"m=ext,r={NONCE}x,s={SALT},i=4096", "extension"),
        ("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "malformed"),
        ("x" * 8193, "8193 bytes"),
        (b"r=\xff", "not UTF-8"),
    ],
)
def test_bad_first_messages_are_refused_before_anything_is_computed(message, text, monkeypatch):
    monkeypatch.setattr(scram, "salt_password", None)
    login, _ = begun()
    with pytest.raises(KafkaProtocolError, match=text):
        login.respond(message.encode() if isinstance(message, str) else message)


def test_unknown_optional_extensions_are_ignored():
    login, _ = begun()
    assert login.respond(f"r={NONCE}x,s={SALT},i=4096,x=later".encode())


@pytest.mark.parametrize("iterations", [4096, 1_000_000])
def test_the_fewest_and_the_most_iterations_are_accepted(iterations, monkeypatch):
    asked = []
    monkeypatch.setattr(scram, "salt_password", lambda *arguments: asked.append(arguments[-1]) or bytes(32))
    login, _ = begun()
    assert login.respond(f"r={NONCE}x,s={SALT},i={iterations}".encode())
    assert asked == [iterations]


def test_an_error_in_place_of_the_first_message_is_reported():
    login, _ = begun()
    with pytest.raises(SaslAuthenticationFailedError, match="unknown-user"):
        login.respond(b"e=unknown-user")


@pytest.mark.parametrize("message", [b"v=", b"v", b"v=@@", b"x=y", b"v=abc", b"\xff", b"v=" + b"A" * 9000])
def test_bad_last_messages_are_refused(message):
    login, _ = waiting_for_proof()
    with pytest.raises(KafkaProtocolError):
        login.respond(message)


def test_a_truncated_signature_is_refused():
    login, last = waiting_for_proof()
    short = b"v=" + base64.b64encode(base64.b64decode(last[2:])[:-1])
    with pytest.raises(SaslAuthenticationFailedError):
        login.respond(short)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=60), st.just(f"r={NONCE}x,s={SALT},i=4096".encode())), max_size=3))
def test_no_random_server_is_believed(messages):
    login, _ = begun()
    for message in messages:
        try:
            assert login.respond(message) is not None
        except KafkaError as error:
            assert SECRET not in str(error)
            return


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("SCRAM-SHA-1", "user", SECRET, NONCE), "unknown SCRAM mechanism"),
        (("SCRAM-SHA-256", "", SECRET, NONCE), "sasl_plain_username is empty"),
        (("SCRAM-SHA-256", "user", SECRET, ""), "nonce"),
        (("SCRAM-SHA-256", "user", SECRET, "a,b"), "nonce"),
        (("SCRAM-SHA-256", "us\0er", SECRET, NONCE), "sasl_plain_username contains"),
        (("SCRAM-SHA-256", "user", SECRET + "\0", NONCE), "sasl_plain_password contains"),
    ],
)
def test_bad_arguments_are_rejected(arguments, text):
    with pytest.raises(IllegalArgumentError, match=text) as caught:
        Scram(*arguments)
    assert SECRET not in str(caught.value)


def test_the_password_is_neither_sent_nor_shown():
    login, first = begun()
    server = Server("SCRAM-SHA-256", {"user": SECRET})
    proof = login.respond(server.first(first))
    for text in (repr(login), first.decode(), proof.decode(), login.shown(f"is it {SECRET}?")):
        assert SECRET not in text
