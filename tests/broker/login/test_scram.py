"""SCRAM: the example of RFC 7677, both hashes, and every message of a client that does not know the password."""

import base64
import hashlib
import hmac

import pytest

from thinconsumer_testing.broker.login.exchange import InvalidCredentialsError, LoginFailedError
from thinconsumer_testing.broker.login.scram import ScramExchange
from thinconsumer_testing.broker.login.scram_credentials import ScramCredential

RFC_SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
RFC_SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
RFC_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
USERS = {
    ("SCRAM-SHA-256", "user"): ScramCredential.of_password("SCRAM-SHA-256", "pencil", RFC_SALT),
    ("SCRAM-SHA-512", "a=b,c"): ScramCredential.of_password("SCRAM-SHA-512", "pässword", b"salt"),
}


def new(mechanism="SCRAM-SHA-256", nonce=RFC_SERVER_NONCE):
    return ScramExchange(mechanism, lambda user: USERS.get((mechanism, user)), nonce)


def test_example_of_rfc_7677():
    exchange = new()
    first = exchange.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", 0.0)
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert not exchange.is_complete
    assert exchange.evaluate(RFC_FINAL, 0.0) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert exchange.is_complete
    assert (exchange.user, exchange.expires_at) == ("user", None)
    with pytest.raises(InvalidCredentialsError, match="repeated"):
        exchange.evaluate(RFC_FINAL, 0.0)


def test_sha_512_with_an_escaped_name_an_authorization_id_and_extensions():
    exchange = new("SCRAM-SHA-512", "server")
    header, bare = b"n,a=a=3Db=2Cc,", b"n=a=3Db=2Cc,r=client,e=x"
    first = exchange.evaluate(header + bare, 0.0)
    without_proof = b"c=%s,r=clientserver" % base64.b64encode(header)
    salted = hashlib.pbkdf2_hmac("sha512", "pässword".encode(), b"salt", 4096)
    key = hmac.digest(salted, b"Client Key", "sha512")
    signature = hmac.digest(hashlib.sha512(key).digest(), b",".join((bare, first, without_proof)), "sha512")
    proof = bytes(a ^ b for a, b in zip(key, signature))
    exchange.evaluate(without_proof + b",p=" + base64.b64encode(proof), 0.0)
    assert exchange.user == "a=b,c"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (b"", "malformed"),
        (b"\xff", "UTF-8"),
        (b"y,,n=user,r=x", "malformed"),
        (b"p=tls-unique,,n=user,r=x", "malformed"),
        (b"n,,n=user", "malformed"),
        (b"n,,n=,r=x", "malformed"),
        (b"n,,n=us=er,r=x", "malformed"),
        (b"n,,n=user,r=", "malformed"),
        (b"n,,m=1,n=user,r=x", "malformed"),
        (b"n,,n=user,r=x\n", "malformed"),
        (b"n,,n=nobody,r=x", "no credential"),
    ],
)
def test_invalid_first_messages(message, words):
    with pytest.raises(InvalidCredentialsError, match=words):
        new().evaluate(message, 0.0)


def test_authorization_as_another_user():
    with pytest.raises(LoginFailedError, match="authorization id that is different"):
        new().evaluate(b"n,a=root,n=user,r=x", 0.0)


@pytest.mark.parametrize(
    ("old", "other", "words"),
    [
        (b"dHzb", b"eHzb", "proof is wrong"),
        (b"k0,p", b"k1,p", "another nonce"),
        (b"c=biws", b"c=biw=", "base64|binding"),
        (b"c=biws", b"c=eSws", "channel binding"),
        (b"p=dHzb", b"p==Hzb", "not base64"),
        (b"p=dHzb", b"p=", "wrong length"),
        (b",p=", b",q=", "malformed"),
        (b"c=biws", b"n=user", "malformed"),
    ],
)
def test_invalid_final_messages(old, other, words):
    exchange = new()
    exchange.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", 0.0)
    assert old in RFC_FINAL
    with pytest.raises(InvalidCredentialsError, match=words):
        exchange.evaluate(RFC_FINAL.replace(old, other), 0.0)
    assert not exchange.is_complete
