"""Token requests with an assertion: what is signed, which files are read when, and what no error shows."""

import base64
import json
import os
import pickle
import random
import time
import urllib.parse

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import PrivateFormat, load_pem_private_key
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer.config import ClientOptions
from thinconsumer.config.security_kinds import JWT_BEARER
from thinconsumer.errors import KafkaConfigurationError
from thinconsumer.sasl import mechanism
from thinconsumer.sasl.assertions import FILE_BYTES_MAX, AssertionGrant, Assertions
from thinconsumer.sasl.oidc import ClientCredentials, HttpResponse, TokenEndpointError, token_source

NOW = 1_700_000_000.25
SECRET = "c4n4ry/s3cr3t+"
#: An RSA key of 12 bits: the primes 61 and 53.
SHORT_KEY = base64.encodebytes(bytes.fromhex("301d02010002020ca102011102020ac102013d020135020135020131020126"))
AUDIENCE = "https://idp.example"


def options(**changed):
    """Return options: names without their beginnings."""
    longer = {"client_id": "client_credentials_client_id", "url": "token_endpoint_url"}
    given = {"url": "https://idp.example/token?key=hidden", **changed}
    known = ClientOptions.options()
    names = {name: f"sasl_oauthbearer_{longer.get(name, name)}" for name in given}
    return ClientOptions(
        **{long if long in known else f"sasl_oauthbearer_assertion_{name}": given[name] for name, long in names.items()}
    )


@pytest.fixture
def key_file(tmp_path, keys):
    path = tmp_path / "key.pem"
    path.write_bytes(keys.pem("RS256"))
    return path


@pytest.fixture
def make(key_file):
    """Return a function that makes an assertion with the key file, unless another source is given."""

    def make(now=NOW, seed=1, **changed):
        own_key = {} if {"file", "private_key_pem"} & changed.keys() else {"private_key_file": str(key_file)}
        given = {"grant_type": JWT_BEARER, "claim_aud": AUDIENCE, "claim_iss": "app", **own_key, **changed}
        return Assertions(options(**given)).make(now, random.Random(seed))

    return make


def claims_of(assertion, key, algorithm="RS256", **more):
    """Return the claims, verified as a server of PyJWT does at the time NOW, but for the times."""
    unchecked = {"verify_exp": False, "verify_nbf": False, "verify_iat": False}
    return jwt.decode(assertion, key, [algorithm], audience=AUDIENCE, options=unchecked, **more)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
@pytest.mark.parametrize("passphrase", ["", "c4n4ry"])
@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_an_assertion_is_signed_with_the_key(make, keys, key_file, algorithm, passphrase, form):
    pem = keys.pem(algorithm, passphrase, form)
    key_file.write_bytes(pem)
    secret = {"private_key_passphrase": passphrase or None}
    for source in ({"private_key_file": str(key_file)}, {"private_key_pem": pem.decode()}):
        assertion = make(algorithm=algorithm, claim_sub="me", **source, **secret)
        assert jwt.get_unverified_header(assertion) == {"alg": algorithm, "typ": "JWT"}
        assert claims_of(assertion, keys.public(algorithm), algorithm) == {
            "aud": AUDIENCE,
            "iss": "app",
            "sub": "me",
            "iat": 1_700_000_000,
            "exp": 1_700_000_300,
            "nbf": 1_699_999_940,
        }


def test_each_assertion_is_made_anew(make, keys):
    times = {"claim_exp_seconds": 5, "claim_nbf_seconds": 0, "claim_jti_include": True}
    first = claims_of(make(**times), keys.public("RS256"))
    assert (first["iat"], first["exp"], first["nbf"]) == (1_700_000_000, 1_700_000_005, 1_700_000_000)
    assert len(first["jti"]) == 32
    assert make(**times) == make(**times)  # as time and randomness are arguments
    later = claims_of(make(NOW + 9, 2, **times), keys.public("RS256"))
    assert later["iat"] == first["iat"] + 9 and later["jti"] != first["jti"]


def test_an_assertion_takes_less_time_than_the_validation_of_its_key(make, keys):
    """The validation takes 0.1 s, and with 4096 bits a second, in which the client would do nothing else."""
    pem = keys.pem("RS256")

    def took(call):
        began = time.process_time()
        call()
        return time.process_time() - began

    validation = min(took(lambda: load_pem_private_key(pem, None)) for _ in range(3))
    assert min(took(lambda: make(private_key_pem=pem.decode())) for _ in range(3)) < validation / 2


def test_a_template_gives_header_and_claims(make, keys, tmp_path):
    template = tmp_path / "template.json"
    payload = {"iss": "app", "sub": "s", "aud": [AUDIENCE, "b"], "iat": 1, "exp": 2, "target_audience": "ä", "n": [1.5]}
    template.write_text(json.dumps({"header": {"kid": "k1", "alg": "none"}, "payload": payload}))
    assertion = make(template_file=str(template), claim_aud=None, claim_sub="s")
    assert jwt.get_unverified_header(assertion) == {"kid": "k1", "alg": "RS256", "typ": "JWT"}
    found = claims_of(assertion, keys.public("RS256"))
    assert found == payload | {"iat": 1_700_000_000, "exp": 1_700_000_300, "nbf": 1_699_999_940}
    template.write_text("{}")
    assert "target_audience" not in claims_of(make(template_file=str(template)), keys.public("RS256"))


def test_files_are_read_anew_for_each_request(make, keys, tmp_path, key_file):
    template, assertion = tmp_path / "template.json", tmp_path / "assertion.jwt"
    template.write_text('{"header": {"kid": "1"}}')
    one = Assertions(options(
        grant_type=JWT_BEARER, private_key_file=str(key_file), template_file=str(template), claim_aud="a", claim_iss="i"
    ))  # fmt: skip
    draw = random.Random(1)
    assert jwt.get_unverified_header(one.make(NOW, draw))["kid"] == "1"
    template.write_text('{"header": {"kid": "2"}}')
    stranger = one.make(NOW, draw)
    assert jwt.get_unverified_header(stranger)["kid"] == "2"
    key_file.write_bytes(keys.pem("P-384"))
    with pytest.raises(KafkaConfigurationError, match="it is not an RSA key"):
        one.make(NOW, draw)
    kept = Assertions(options(file=str(assertion)))
    for number in range(3):
        assertion.write_text(f"\n{number}.b_-.c\n")
        assert kept.make(NOW, draw) == f"{number}.b_-.c"


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("", "must be a JSON object with header and payload"),
        ("[]", "must be a JSON object"),
        ("[" * 60_000, "must be a JSON object"),
        ('{"header": {}, "claims": {}}', "and nothing else"),
        ('{"header": []}', "must be JSON objects"),
        ('{"payload": "c4n4ry"}', "must be JSON objects"),
        ('{"payload": {"x": NaN}}', "a value that is not JSON"),
        ('{"header": {"x": 1e999}}', "a value that is not JSON"),
        ('{"payload": {"iss": "c4n4ry"}}', "its iss is not that of sasl_oauthbearer_assertion_claim_iss"),
        ('{"payload": {"aud": []}}', "its aud is not that of"),
        ('{"payload": {"sub": 5}}', "its sub must be a text, not empty: set sasl_oauthbearer_assertion_claim_sub"),
        ('{"payload": {"jti": ""}}', "its jti must be a text, not empty$"),
        ('{"payload": {"x": "' + "a" * FILE_BYTES_MAX + '"}}', f"has more than {FILE_BYTES_MAX} bytes"),
    ],
)
def test_templates_that_cannot_be_used(make, tmp_path, template, words):
    (tmp_path / "template.json").write_text(template)
    with pytest.raises(KafkaConfigurationError, match=words) as caught:
        make(template_file=str(tmp_path / "template.json"))
    assert "c4n4ry" not in str(caught.value) and caught.value.__context__ is None


@given(
    st.text(max_size=100) | st.recursive(st.none() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v))
)
def test_any_template_is_used_or_an_error(tmp_path_factory, keys, content):
    path = tmp_path_factory.mktemp("any") / "template.json"
    text = content if isinstance(content, str) else json.dumps({"payload": content})
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    given = {"private_key_pem": keys.pem("ES256").decode(), "algorithm": "ES256", "claim_aud": "a", "claim_iss": "i"}
    try:
        Assertions(options(grant_type=JWT_BEARER, template_file=str(path), **given)).make(NOW, random.Random(1))
    except KafkaConfigurationError as error:
        assert str(error).isprintable()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"claim_aud": None}, "its aud must be a text or a list of texts: set sasl_oauthbearer_assertion_claim_aud"),
        ({"claim_iss": None}, "its iss must be a text, not empty: set sasl_oauthbearer_assertion_claim_iss"),
        ({"grant_type": "client_credentials"}, "its sub must be a text"),
    ],
)
def test_claims_that_are_missing(make, changed, words):
    with pytest.raises(KafkaConfigurationError, match=f"^assertion: {words}"):
        make(**changed)


@pytest.mark.parametrize(
    ("key", "changed", "words"),
    [
        ("ES256", {}, "it is not an RSA key, which RS256 needs"),
        ("RS256", {"algorithm": "ES256"}, "it is not a P-256 key"),
        ("P-384", {"algorithm": "ES256"}, "it is not a P-256 key"),
        (
            "RS256",
            {"private_key_passphrase": "c4n4ry"},
            "it is not encrypted: leave out sasl_oauthbearer_assertion_priv",
        ),
        ("encrypted", {}, "it is encrypted: set sasl_oauthbearer_assertion_private_key_passphrase"),
        ("encrypted", {"private_key_passphrase": "wrong-c4n4ry"}, "can be used, or .*_passphrase is wrong"),
        ("garbage", {}, "it has no private key in PEM form that can be used$"),
        ("short", {}, "it cannot sign: it is too short, or damaged"),
        ("large", {}, f"has more than {FILE_BYTES_MAX} bytes"),
    ],
)
def test_keys_that_cannot_be_used(make, keys, key_file, key, changed, words):
    content = {
        "encrypted": lambda: keys.pem("RS256", "c4n4ry"),
        "garbage": lambda: b"-----BEGIN PRIVATE KEY-----\nc4n4ry\n-----END PRIVATE KEY-----\n",
        "short": lambda: b"-----BEGIN RSA PRIVATE KEY-----\n%b-----END RSA PRIVATE KEY-----\n" % SHORT_KEY,
        "large": lambda: keys.pem("RS256") + b"c4n4ry" * FILE_BYTES_MAX,
    }.get(key, lambda: keys.pem(key))()
    key_file.write_bytes(content)
    with pytest.raises(KafkaConfigurationError, match=words) as caught:
        make(**changed)
    assert str(caught.value).startswith(f"sasl_oauthbearer_assertion_private_key_file: {key_file}")
    assert "c4n4ry" not in str(caught.value) and caught.value.__context__ is None
    if key != "large":
        with pytest.raises(KafkaConfigurationError, match=words) as caught:
            make(private_key_pem=content.decode(), **changed)
        assert str(caught.value).startswith("sasl_oauthbearer_assertion_private_key_pem: it ")


@pytest.mark.parametrize("option", ["private_key_file", "file", "template_file"])
def test_files_that_cannot_be_read(make, tmp_path, option):
    """A pipe in place of a file must not stop the client until another program writes."""
    path = tmp_path / "gone"
    with pytest.raises(KafkaConfigurationError, match=f"^sasl_oauthbearer_assertion_{option}: {path}: No such file"):
        make(**{option: str(path)})
    if hasattr(os, "mkfifo"):
        os.mkfifo(path)
        writer = os.open(path, os.O_RDWR)  # a writer that never writes
        try:
            with pytest.raises(KafkaConfigurationError, match=f"^sasl_oauthbearer_assertion_{option}: {path}: "):
                make(**{option: str(path)})
        finally:
            os.close(writer)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it has no signed JWT"),
        (b"c4n4ry", "it has no signed JWT"),
        (b"a.c4n4ry.", "it has no signed JWT"),
        (b"a.b.c\nd.e.f", "it has no signed JWT"),
        (b"a.b.\xff\xfe", "it has no signed JWT"),
        (b"a.b." + b"c" * FILE_BYTES_MAX, f"has more than {FILE_BYTES_MAX} bytes"),
        (jwt.encode({"exp": NOW - 7, "x": "c4n4ry"}, "k" * 32).encode(), "has expired 7 s ago by this machine's clock"),
    ],
)
def test_assertion_files_that_cannot_be_used(make, tmp_path, content, words):
    path = tmp_path / "assertion.jwt"
    path.write_bytes(content)
    with pytest.raises(KafkaConfigurationError, match=words) as caught:
        make(file=str(path))
    assert str(caught.value).startswith(f"sasl_oauthbearer_assertion_file: {path}")
    assert "c4n4ry" not in str(caught.value) and "eyJ" not in str(caught.value)


def test_without_cryptography_the_extras_are_named(make, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(mechanism, "import_module", missing)
    with pytest.raises(
        KafkaConfigurationError, match=r"package cryptography \(pip install 'thinconsumer\[oidc,pkcs12\]'"
    ):
        make()


def test_a_file_with_an_assertion_needs_no_cryptography(make, monkeypatch, tmp_path):
    (tmp_path / "assertion.jwt").write_text("a.b.c")
    monkeypatch.setattr(mechanism, "import_module", lambda name: pytest.fail(name))
    assert make(file=str(tmp_path / "assertion.jwt")) == "a.b.c"


# -- requests


def form_of(source):
    """Return the form of a request, and its headers in lower case."""
    head, _, body = source.exchange(NOW, random.Random(1)).request.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /token?key=hidden HTTP/1.1\r\n")
    return dict(urllib.parse.parse_qsl(body.decode(), strict_parsing=True)), head.decode().lower()


def test_the_grant_by_assertion(make, key_file):
    given = {"grant_type": JWT_BEARER, "private_key_file": str(key_file), "claim_aud": AUDIENCE, "claim_iss": "app"}
    source = token_source(options(**given, scope=" a b ", client_id="unused"))
    form, head = form_of(source)
    assert form == {"grant_type": JWT_BEARER, "assertion": make(), "scope": "a b"}
    assert "authorization" not in head and "content-type: application/x-www-form-urlencoded" in head


def test_an_assertion_in_place_of_the_clients_secret(make, keys, key_file):
    source = token_source(options(client_id="app", private_key_file=str(key_file), claim_aud=AUDIENCE))
    form, head = form_of(source)
    claims = claims_of(form.pop("client_assertion"), keys.public("RS256"))
    assert claims["iss"] == claims["sub"] == "app"
    assert form == {
        "grant_type": "client_credentials",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_id": "app",
    }
    assert "authorization" not in head
    own = options(client_id="app", private_key_file=str(key_file), claim_aud=AUDIENCE, claim_iss="i", claim_sub="s")
    claims = claims_of(form_of(token_source(own))[0]["client_assertion"], keys.public("RS256"))
    assert (claims["iss"], claims["sub"]) == ("i", "s")


def test_an_assertion_of_a_file_in_place_of_the_secret(tmp_path):
    path = tmp_path / "assertion.jwt"
    path.write_text("a.b.c")
    assert set(form_of(token_source(options(file=str(path))))[0]) == {
        "grant_type", "client_assertion_type", "client_assertion",
    }  # fmt: skip


def test_a_secret_needs_no_assertion():
    secret = {
        "sasl_oauthbearer_client_credentials_client_id": "a",
        "sasl_oauthbearer_client_credentials_client_secret": "b",
    }
    source = token_source(ClientOptions(sasl_oauthbearer_token_endpoint_url="https://idp/", **secret))
    assert type(source) is ClientCredentials


# -- responses


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "assertion.jwt"
    path.write_text("aaaa.bbbb.s1gn4ture-c4n4ry\n")
    return lambda **more: AssertionGrant(options(file=str(path), **more))


def answer(status=200, **parsed):
    return HttpResponse(status, json.dumps(parsed).encode())


def test_only_the_grant_by_assertion_takes_an_id_token(source):
    token = jwt.encode({"exp": NOW + 60, "sub": "me"}, "k" * 32)
    bearer = source(grant_type=JWT_BEARER)
    for response in (answer(id_token=token), answer(access_token="", id_token=token), answer(access_token=token)):
        found = bearer.token(response, NOW, NOW)
        assert (found.value, found.expires_at, found.principal) == (token, NOW + 60, "me")
    assert bearer.token(answer(access_token="abc", id_token=token), NOW, NOW).value == "abc"
    with pytest.raises(TokenEndpointError, match="no access_token or id_token"):
        bearer.token(answer(id_token=5), NOW, NOW)
    with pytest.raises(TokenEndpointError, match="no access_token$"):
        source().token(answer(id_token=token), NOW, NOW)
    assert source(client_id="app").token(answer(access_token="abc"), NOW, NOW).principal == "app"


@pytest.mark.parametrize(
    ("response", "words", "is_retriable"),
    [
        (answer(401, error="invalid_client"), "check the assertion's key or file, its claims, and", False),
        (answer(400, error="invalid_grant"), "check the assertion's key or file, its claims, and", False),
        (answer(401), "check the assertion's key or file", False),
        (answer(400, error="unsupported_grant_type"), "allow this grant on the server", False),
        (answer(404), "check sasl_oauthbearer_token_endpoint_url", False),
        (HttpResponse(302, b""), "redirects are not followed, as they could lead credentials elsewhere", False),
        (HttpResponse(503, b"<html>"), "HTTP status 503$", True),
    ],
)
def test_rejections(source, response, words, is_retriable):
    with pytest.raises(TokenEndpointError, match=words) as caught:
        source(grant_type=JWT_BEARER).token(response, NOW, NOW)
    assert caught.value.retriable is is_retriable


def test_no_text_shows_an_assertion(source):
    one = source(grant_type=JWT_BEARER)
    one.exchange(NOW, random.Random(1))
    echo = "aaaa.bbbb.s1gn4ture-c4n4ry and s1gn4ture-c4n4ry"
    with pytest.raises(TokenEndpointError, match="e: <hidden> and <hidden>$") as caught:
        one.token(answer(400, error="e", error_description=echo), NOW, NOW)
    assert "c4n4ry" not in f"{caught.value}{one!r}{one._assertions!r}{vars(caught.value)}"
    for holder in (one, one._assertions):
        with pytest.raises(TypeError, match="holds a secret"):
            pickle.dumps(holder)


def test_the_parts_of_an_assertion_are_base64url(make):
    for part in make().split("."):
        assert "=" not in part and base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
