"""AWS_MSK_IAM against kafka-python's client and Amazon's signer."""

import base64
import datetime
import json
import logging
import sys
from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlsplit

import pytest

from thinconsumer.admin import ClientOptions
from thinconsumer.errors import (
    IllegalArgumentError,
    KafkaConfigurationError,
    KafkaProtocolError,
    SaslAuthenticationFailedError,
)
from thinconsumer.sasl.aws_msk_iam import (
    AwsMskIam,
    LoadedCredentials,
    load_credentials,
    presigned_parameters,
    region_of,
)

pytest.importorskip("botocore")

HOST = "b-1.demo.abc123.c2.kafka.eu-west-1.amazonaws.com"
WALL = 1_795_400_000.9
MOMENT = datetime.datetime.fromtimestamp(WALL, datetime.timezone.utc)
STATIC = LoadedCredentials("AKIAEXAMPLE", "secret/key+1", None)
TEMPORARY = LoadedCredentials("ASIAEXAMPLE", "secret/key+2", "session+token/with==signs&more")


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return MOMENT


def signed(token):
    """Return the host and the parameters in a token of Amazon's signer, without its user agent."""
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    return url.hostname, {name: value for name, value in parse_qsl(url.query) if name != "User-Agent"}


@pytest.mark.parametrize("keys", [STATIC, TEMPORARY], ids=["static", "temporary"])
def test_the_payload_equals_kafka_pythons(keys, monkeypatch):
    msk = pytest.importorskip("kafka.net.sasl.msk")
    monkeypatch.setattr(msk.datetime, "datetime", Clock)
    client = msk.AwsMskIamClient(HOST, keys.access_key, keys.secret_key, "eu-west-1", keys.token)
    theirs = json.loads(client.first_message())
    ours = json.loads(AwsMskIam(HOST, keys, "eu-west-1", WALL).start())
    assert ours.pop("user-agent").startswith("thinconsumer/")
    theirs.pop("user-agent")
    assert ours == theirs
    assert ("x-amz-security-token" in ours) == (keys.token is not None)


@pytest.mark.parametrize("keys", [STATIC, TEMPORARY], ids=["static", "temporary"])
def test_the_parameters_equal_those_of_amazons_signer(keys, monkeypatch):
    signer = pytest.importorskip("aws_msk_iam_sasl_signer.MSKAuthTokenProvider")
    from botocore import auth, credentials

    class Provider(credentials.CredentialProvider):
        def load(self):
            return credentials.Credentials(keys.access_key, keys.secret_key, keys.token)

    monkeypatch.setattr(auth, "get_current_datetime", lambda: MOMENT.replace(tzinfo=None))
    token, _ = signer.generate_auth_token_from_credentials_provider("eu-west-1", Provider())
    host, theirs = signed(token)
    assert presigned_parameters(host, keys, "eu-west-1", WALL) == theirs


def test_the_parameters_of_a_role_equal_those_of_amazons_signer(monkeypatch):
    """Both assume the role with the same answer of the token service."""
    signer = pytest.importorskip("aws_msk_iam_sasl_signer.MSKAuthTokenProvider")
    import botocore.session
    from botocore import auth

    role = "arn:aws:iam::123456789012:role/r"
    expiry = MOMENT + datetime.timedelta(hours=1)
    keys = {"AccessKeyId": "A" * 20, "SecretAccessKey": "secret/key+3", "SessionToken": "t+o/k=", "Expiration": expiry}
    service = SimpleNamespace(assume_role=lambda **asked: {"Credentials": keys})
    session = botocore.session.Session()
    monkeypatch.setattr(session, "create_client", lambda name, region_name: service)
    monkeypatch.setattr(signer.boto3, "client", lambda name, **options: service)
    monkeypatch.setattr(auth, "get_current_datetime", lambda: MOMENT.replace(tzinfo=None))
    options = ClientOptions(sasl_aws_msk_iam_role_arn=role, sasl_aws_msk_iam_region="eu-west-1")
    found = load_credentials(options, lambda profile: session)
    token, _ = signer.generate_auth_token_from_role_arn("eu-west-1", role)
    host, theirs = signed(token)
    assert presigned_parameters(host, found, "eu-west-1", WALL) == theirs


def test_the_payload_is_compact_json_with_the_signature_last():
    text = AwsMskIam(HOST, TEMPORARY, "", WALL).start().decode()
    assert " " not in text
    fields = json.loads(text)
    assert [*fields][:3] == ["version", "host", "user-agent"]
    assert (fields["version"], fields["host"]) == ("2020_10_22", HOST)
    assert [*fields][-1] == "x-amz-signature"
    assert fields["x-amz-credential"] == "ASIAEXAMPLE/20261123/eu-west-1/kafka-cluster/aws4_request"
    assert fields["x-amz-date"] == MOMENT.strftime("%Y%m%dT%H%M%SZ")


@pytest.mark.parametrize(
    ("host", "region"),
    [
        (HOST, "eu-west-1"),
        (HOST.upper(), "eu-west-1"),
        ("boot-x.c1.kafka-serverless.us-east-2.amazonaws.com", "us-east-2"),
        ("b-1.demo.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("kafka.example.com", ""),
        (f"{HOST}.evil.example", ""),
        ("kafka.eu-west-1.amazonaws.com", ""),
    ],
)
def test_the_region_is_read_from_the_host(host, region):
    assert region_of(host) == region


def test_an_unknown_region_is_an_error():
    with pytest.raises(KafkaConfigurationError, match="sasl_aws_msk_iam_region"):
        AwsMskIam("vpce.example", STATIC, "", WALL)


def test_the_signed_host_is_the_payloads():
    upper = json.loads(AwsMskIam(HOST.upper(), STATIC, "eu-west-1", WALL).start())
    assert upper == json.loads(AwsMskIam(HOST, STATIC, "eu-west-1", WALL).start())


@pytest.mark.parametrize("host", ["", "a/b", "a?b", "a@b", "a b", "::1", "a:9098", "ä", "a\n"])
def test_hosts_that_would_change_the_request_are_rejected(host):
    with pytest.raises(IllegalArgumentError, match="host name"):
        AwsMskIam(host, STATIC, "eu-west-1", WALL)


@pytest.mark.parametrize("keys", [LoadedCredentials("", "s", None), LoadedCredentials("a", "", None)])
def test_empty_credentials_are_rejected(keys):
    with pytest.raises(IllegalArgumentError, match="credentials are empty"):
        AwsMskIam(HOST, keys, "eu-west-1", WALL)


def test_an_empty_session_token_counts_as_none():
    empty = replace(STATIC, token="")
    assert AwsMskIam(HOST, empty, "", WALL).start() == AwsMskIam(HOST, STATIC, "", WALL).start()


def test_the_brokers_answer_ends_the_login():
    login = AwsMskIam(HOST, replace(TEMPORARY, expires_at=WALL + 3600), "", WALL)
    assert login.respond(b'{"version":"2020_10_22","request-id":"1"}') is None
    assert login.credentials_expire_at == WALL + 3600


def test_an_empty_answer_is_a_rejection():
    with pytest.raises(SaslAuthenticationFailedError, match="empty"):
        AwsMskIam(HOST, STATIC, "", WALL).respond(b"")


@pytest.mark.parametrize("answer", [b"no JSON", b"[]", b"\xff", b"[" * 10_000, b"{" + b" " * 20_000 + b"}"])
def test_malformed_answers_are_refused(answer):
    with pytest.raises(KafkaProtocolError, match="no JSON object"):
        AwsMskIam(HOST, STATIC, "", WALL).respond(answer)


def test_secrets_are_neither_shown_nor_logged(caplog):
    """Botocore's own way to sign logs the session token."""
    caplog.set_level(logging.DEBUG)
    login = AwsMskIam(HOST, TEMPORARY, "", WALL)
    payload = json.loads(login.start())
    echo = login.shown(f"{TEMPORARY.secret_key} {TEMPORARY.token} {payload['x-amz-signature']}")
    for text in (repr(login), repr(TEMPORARY), caplog.text, echo):
        assert TEMPORARY.secret_key not in text
        assert TEMPORARY.token not in text
        assert payload["x-amz-signature"] not in text


def test_without_botocore_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore.auth", None)
    with pytest.raises(KafkaConfigurationError, match=r"thinconsumer\[msk-iam\]"):
        AwsMskIam(HOST, STATIC, "", WALL)
