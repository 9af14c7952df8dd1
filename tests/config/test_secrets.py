"""Planted secrets: whatever options of TLS and SASL are given, and however wrong, nothing printed contains them."""

import copy
import pickle
import pprint
import pydoc
import traceback
import warnings

import pytest

from thinconsumer import Consumer
from thinconsumer.config import OPTIONS, ConsumerConfig, SecurityOptions
from thinconsumer.errors import KafkaConfigurationError
from thinconsumer.member import GroupMemberOptions
from thinconsumer.produce.settings import ProducerSettings

CANARY = "c4nary"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def pem(label):
    return f"-----BEGIN {label}-----\n{CANARY}\n-----END {label}-----\n"


#: A value with a secret for each option with a hidden value.
SECRETS = {
    "ssl_password": CANARY,
    "ssl_key_password": CANARY,
    "ssl_truststore_password": CANARY,
    "ssl_truststore_certificates": pem("CERTIFICATE"),
    "ssl_keystore_password": CANARY,
    "ssl_keystore_key": pem("PRIVATE KEY"),
    "ssl_keystore_certificate_chain": pem("CERTIFICATE"),
    "sasl_plain_password": CANARY,
    "sasl_jaas_config": f'{PLAIN} required username="u" password="{CANARY}";',
    "sasl_oauthbearer_client_credentials_client_secret": CANARY,
    "sasl_oauthbearer_assertion_private_key_pem": pem("PRIVATE KEY"),
    "sasl_oauthbearer_assertion_private_key_passphrase": CANARY,
    "sasl_oauthbearer_config": f"query={CANARY}",
    "sasl_oauthbearer_extensions": {"pool": CANARY},
    "sasl_aws_msk_iam_role_external_id": CANARY,
}
#: Values of a wrong type or form, with the secret inside.
WRONG = (
    CANARY.encode(),
    [CANARY],
    {CANARY: CANARY},
    {"auth": CANARY},
    CANARY + "\n",
    pem("X"),
    f"{CANARY}\0",
    (CANARY,),
)
NAMES = list(SecurityOptions.options())


class Provider:
    def token(self):
        return CANARY

    def __repr__(self):
        return CANARY


def printed(build, given):
    """Return everything that building a config and showing it prints."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            config = build(given)
        except KafkaConfigurationError as error:
            texts = [str(error), repr(error), *traceback.format_exception(error)]
        else:
            texts = [repr(config), str(config), f"{config}", pprint.pformat(config), repr(copy.copy(config))]
            texts.append(repr([getattr(config, name) for name in SECRETS]))
            if config.sasl_oauth_token_provider is None:
                texts.append(repr(pickle.loads(pickle.dumps(config))))
    # A traceback shows the line of this test that called, which has no secret in it.
    return "\n".join([*texts, *(str(warning.message) for warning in caught)])


def test_every_secret_option_is_listed():
    assert {name for name in NAMES if OPTIONS[name].kind.is_secret} == set(SECRETS)


def builds():
    for client in (ConsumerConfig, GroupMemberOptions, ProducerSettings):
        yield lambda given, client=client: client.from_options(**given)
        yield lambda given, client=client: client.from_config({k.replace("_", "."): v for k, v in given.items()})


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_SSL"])
def test_a_secret_is_never_shown(name, protocol):
    for build in builds():
        for more in ({}, {"sasl_mechanism": "PLAIN"}, {"sasl_mechanism": "OAUTHBEARER"}, {"request_timeout_ms": "x"}):
            assert CANARY not in printed(build, {"security_protocol": protocol, name: SECRETS[name], **more})


@pytest.mark.parametrize("name", SECRETS)
def test_a_wrong_value_of_a_secret_option_is_never_shown(name):
    for build in builds():
        for value in WRONG:
            assert CANARY not in printed(build, {name: value})


@pytest.mark.parametrize("name", [name for name in NAMES if name not in SECRETS])
def test_secrets_in_a_wrong_option_are_never_shown(name):
    """Paths and texts are easily confused: ssl_keyfile and ssl_keystore_key, sasl_mechanism and sasl_jaas_config."""
    for build in builds():
        for value in (pem("PRIVATE KEY"), SECRETS["sasl_jaas_config"], Provider()):
            assert CANARY not in printed(build, {name: value})


def test_all_secrets_at_once():
    for build in builds():
        assert CANARY not in printed(build, SECRETS)
        login = {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": Provider(),
            "ssl_keystore_key": SECRETS["ssl_keystore_key"],
            "ssl_keystore_certificate_chain": SECRETS["ssl_keystore_certificate_chain"],
            "ssl_key_password": CANARY,
        }
        assert CANARY not in printed(build, login)


@pytest.mark.parametrize(
    "name",
    ["sasl_plain_pasword", "sasl_password", "sasl.passwort", "ssl_key_pasword", "sasl_jaas_confg", "ssl.key.pem"],
)
def test_a_misspelt_option_is_named_without_its_value(name):
    text = printed(lambda given: ConsumerConfig.from_options(**given), {name: CANARY})
    assert f"unknown option {name!r}" in text
    assert CANARY not in text


def test_the_help_and_the_objects_of_a_process_show_no_value():
    consumer = Consumer(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_plain_username="u",
                        sasl_plain_password=CANARY)  # fmt: skip
    try:
        assert CANARY not in f"{consumer!r} {consumer} {consumer.config!r} {vars(consumer)!r}"
        assert CANARY not in pydoc.render_doc(Consumer)
    finally:
        consumer.close()
