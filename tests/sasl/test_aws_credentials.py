"""AWS credentials from botocore: its default chain, a profile, and an assumed role."""

import datetime
import pickle

import botocore.session
import pytest
from botocore.stub import Stubber

from thinconsumer.config import ClientOptions
from thinconsumer.errors import KafkaConfigurationError, KafkaError
from thinconsumer.sasl import mechanism
from thinconsumer.sasl.aws_msk_iam import LoadedCredentials, load_credentials, session_maker

SECRET = "c4n4ry"
EXPIRY = datetime.datetime(2030, 1, 1, tzinfo=datetime.timezone.utc)


@pytest.fixture(autouse=True)
def settings(monkeypatch, tmp_path):
    """Keep botocore away from this machine's settings and from the network."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path


def loaded(**options):
    return load_credentials(ClientOptions(**options), session_maker())


def test_static_keys_of_the_environment(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AK")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert loaded() == LoadedCredentials("AK", SECRET, None, None, "eu-west-1")
    assert loaded(sasl_aws_msk_iam_region="us-east-1").region == "us-east-1"


def test_a_profile_is_read_again_for_each_load(settings):
    for key in ("AK1", "AK2"):
        text = f"[other]\naws_access_key_id={key}\naws_secret_access_key={SECRET}\naws_session_token=T\n"
        (settings / "credentials").write_text(text)
        assert loaded(sasl_aws_msk_iam_profile="other") == LoadedCredentials(key, SECRET, "T", None, "")


def test_no_credentials_is_an_error_that_says_what_to_do():
    with pytest.raises(KafkaError, match="AWS_ACCESS_KEY_ID.*sasl_aws_msk_iam_profile"):
        loaded()


class Temporary:
    """Credentials that botocore renews; the expiry is that of the last renewal."""

    _expiry_time = None

    def get_frozen_credentials(self):
        self._expiry_time = EXPIRY
        return botocore.credentials.ReadOnlyCredentials("AK", SECRET, "T")


def test_temporary_credentials_have_an_expiry():
    class Session:
        def __init__(self, profile):
            assert profile is None

        def get_config_variable(self, name):
            return None

        def get_credentials(self):
            return Temporary()

    found = load_credentials(ClientOptions(), Session)
    assert found == LoadedCredentials("AK", SECRET, "T", EXPIRY.timestamp(), "")


@pytest.mark.parametrize("more", [{}, {"ExternalId": "XY"}])
def test_an_assumed_role(monkeypatch, more):
    session = botocore.session.Session()
    session.set_credentials("AK0", SECRET)
    client = session.create_client("sts", region_name="eu-west-1")
    expected = {"RoleArn": "arn:aws:iam::123456789012:role/r", "RoleSessionName": "thinconsumer", **more}
    keys = {"AccessKeyId": "A" * 20, "SecretAccessKey": SECRET, "SessionToken": "T", "Expiration": EXPIRY}
    regions = []

    def create_client(name, region_name):
        regions.append(region_name)
        return client

    monkeypatch.setattr(session, "create_client", create_client)
    with Stubber(client) as stubber:
        stubber.add_response("assume_role", {"Credentials": keys}, expected)
        options = ClientOptions(
            sasl_aws_msk_iam_role_arn=expected["RoleArn"],
            sasl_aws_msk_iam_role_external_id=more.get("ExternalId"),
            sasl_aws_msk_iam_region="us-east-1",
            sasl_aws_msk_iam_sts_region="eu-west-1",
        )
        found = load_credentials(options, lambda profile: session)
    assert found == LoadedCredentials("A" * 20, SECRET, "T", EXPIRY.timestamp(), "us-east-1")
    assert regions == ["eu-west-1"]


def test_credentials_are_neither_shown_nor_pickled():
    found = LoadedCredentials("AK", SECRET, SECRET)
    assert "AK" in repr(found) and SECRET not in repr(found)
    with pytest.raises(TypeError, match="secret"):
        pickle.dumps(found)


def test_without_botocore_the_extra_is_named(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(mechanism, "import_module", missing)
    with pytest.raises(KafkaConfigurationError, match=r"pip install 'thinconsumer\[msk-iam\]'"):
        session_maker()
