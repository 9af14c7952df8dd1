"""Tokens: each algorithm against PyJWT or by hand, claims, and hostile tokens."""

import base64
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.errors import IllegalArgumentError
from thinconsumer_testing.broker.login import web_tokens
from thinconsumer_testing.broker.login.web_tokens import AcceptedToken, TokenError, TokenVerifier
from thinconsumer_testing.broker.security import ListenerSecurity

NOW = 1_700_000_000.0
CLAIMS = {"sub": "alice", "exp": NOW + 60}
SECRET = "a secret of at least thirty-two bytes"


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unsecured(claims=CLAIMS, header='{"alg":"none"}', signature=""):
    text = claims if isinstance(claims, str) else json.dumps(claims)
    return f"{encoded(header.encode())}.{encoded(text.encode())}.{signature}"


def verifier(**settings):
    names = {f"sasl_oauthbearer_{name}": value for name, value in settings.items()}
    return TokenVerifier(ListenerSecurity(**names))


def test_unsecured_token():
    assert verifier().accept(unsecured(), NOW) == AcceptedToken("alice", NOW + 60)


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("", "three parts"),
        ("a.b", "three parts"),
        (unsecured() + ".x", "three parts"),
        (unsecured(signature="eA"), "signature is wrong"),
        (unsecured(header='{"alg":"HS256"}'), "algorithm is not none"),
        (unsecured(header='{"alg":["none"]}'), "algorithm is not none"),
        (unsecured(header="[]"), "not a JSON object"),
        (unsecured("{"), "not JSON"),
        (unsecured("[" * 10_000), "not JSON"),
        ("e===.e30.", "padded"),
        ("e*.e30.", "base64url"),
        ("ü.e30.", "base64url"),
        ("e.e30.", "base64url"),
        (unsecured({"sub": "alice"}), "no claim 'exp'"),
        (unsecured({**CLAIMS, "exp": NOW}), "expired"),
        (unsecured({**CLAIMS, "exp": True}), "not a time"),
        (unsecured({**CLAIMS, "exp": "soon"}), "not a time"),
        (unsecured('{"sub":"alice","exp":NaN}'), "not a time"),
        (unsecured('{"sub":"alice","exp":1e400}'), "not a time"),
        (unsecured('{"sub":"alice","exp":%s}' % ("9" * 400)), "not a time"),
        (unsecured({**CLAIMS, "iat": NOW + 1}), "'iat' is in the future"),
        (unsecured({**CLAIMS, "nbf": NOW + 1}), "'nbf' is in the future"),
        (unsecured({**CLAIMS, "sub": " "}), "no claim 'sub'"),
        (unsecured({**CLAIMS, "sub": 7}), "no claim 'sub'"),
    ],
)
def test_rejected_tokens(token, words):
    with pytest.raises(TokenError, match=words) as caught:
        verifier().accept(token, NOW)
    assert caught.value.status == "invalid_token"


@pytest.mark.parametrize(
    ("settings", "claims", "status"),
    [
        ({"required_scope": "read"}, {"scope": "read write"}, None),
        ({"required_scope": "read,write"}, {"scope": ["write", "read"]}, None),
        ({"required_scope": "read,write"}, {"scope": "read"}, "insufficient_scope"),
        ({"required_scope": "read"}, {}, "insufficient_scope"),
        ({"scope_claim_name": "scp", "required_scope": "read"}, {"scp": "read"}, None),
        ({"sub_claim_name": "azp"}, {"azp": "alice", "sub": "x"}, None),
        ({"expected_audience": "kafka,other"}, {"aud": "kafka"}, None),
        ({"expected_audience": "kafka"}, {"aud": ["a", "kafka"]}, None),
        ({"expected_audience": "kafka"}, {"aud": "a kafka"}, "invalid_token"),
        ({"expected_audience": "kafka"}, {}, "invalid_token"),
        ({"expected_issuer": "me"}, {"iss": "me"}, None),
        ({"expected_issuer": "me"}, {"iss": "you"}, "invalid_token"),
    ],
)
def test_claims(settings, claims, status):
    token = unsecured({**CLAIMS, **claims})
    if status is None:
        assert verifier(**settings).accept(token, NOW).user == "alice"
    else:
        with pytest.raises(TokenError) as caught:
            verifier(**settings).accept(token, NOW)
        assert caught.value.status == status


def key_pairs():
    """Return (algorithm, signing key, PEM of the public key) for RSA and P-256."""
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    keys = {"RS256": rsa.generate_private_key(65537, 2048), "ES256": ec.generate_private_key(ec.SECP256R1())}
    for algorithm, key in keys.items():
        yield algorithm, key, key.public_key().public_bytes(*form).decode()


def test_signed_tokens():
    jwt = pytest.importorskip("jwt")
    pairs = [("HS256", SECRET, SECRET), *key_pairs()]
    for algorithm, key, public in pairs:
        token = jwt.encode(CLAIMS, key, algorithm)
        one = verifier(key=public)
        assert one.accept(token, NOW).user == "alice"
        assert one.accept(token, NOW + 60 + 29).user == "alice", "30 s of clock skew are tolerated"
        with pytest.raises(TokenError, match="expired"):
            one.accept(token, NOW + 90)
        head, claims, signature = token.split(".")
        for bad in (f"{head}.{claims}.", f"{head}.{claims}.{signature[4:]}", f"{head}.{claims}.AAAA{signature[4:]}"):
            with pytest.raises(TokenError, match="signature is wrong"):
                one.accept(bad, NOW)
        with pytest.raises(TokenError, match=f"algorithm is not {algorithm}"):
            one.accept(unsecured(), NOW)
        for other, other_key, _ in pairs:
            if other != algorithm:
                with pytest.raises(TokenError, match="algorithm"):
                    one.accept(jwt.encode(CLAIMS, other_key, other), NOW)


def test_public_key_cannot_be_used_as_a_secret():
    _, _, public = next(key_pairs())
    head, claims, _ = unsecured(header='{"alg":"HS256"}').split(".")
    signature = web_tokens.hmac.digest(public.encode(), f"{head}.{claims}".encode(), "sha256")
    with pytest.raises(TokenError, match="algorithm is not RS256"):
        verifier(key=public).accept(f"{head}.{claims}.{encoded(signature)}", NOW)


def test_key_of_a_certificate_and_invalid_keys():
    trustme = pytest.importorskip("trustme")
    assert verifier(key=trustme.CA(key_type=trustme.KeyType.RSA).cert_pem.bytes().decode())
    with pytest.raises(IllegalArgumentError, match="is not a PEM public key") as caught:
        verifier(key="-----BEGIN PUBLIC KEY-----\ncanary\n-----END PUBLIC KEY-----\n")
    assert "canary" not in str(caught.value)
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    with pytest.raises(IllegalArgumentError, match="neither an RSA nor a P-256 key"):
        verifier(key=ed25519.Ed25519PrivateKey.generate().public_key().public_bytes(*form).decode())


def test_missing_package_is_named(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(web_tokens.importlib, "import_module", missing)
    with pytest.raises(IllegalArgumentError, match="needs the package 'cryptography'"):
        verifier(key="-----BEGIN PUBLIC KEY-----\n")


@settings(max_examples=50)
@given(st.text(max_size=50) | st.binary(max_size=60).map(lambda data: f"{encoded(b'{}')}.{encoded(data)}."))
def test_any_text_is_rejected_with_a_token_error(text):
    with pytest.raises(TokenError):
        verifier().accept(text, NOW)
