"""Rules between options of TLS and SASL: contradictions, missing credentials, risks, and options without effect."""

import ssl
import warnings

import pytest

from thinconsumer.config import ClientOptions, ConfigurationWarning, ConsumerConfig
from thinconsumer.config.security_kinds import JWT_BEARER
from thinconsumer.config.security_rules import DEFAULTS
from thinconsumer.config.unsupported import ALIASES
from thinconsumer.config.values import server_schemes
from thinconsumer.errors import KafkaConfigurationError

FILE = __file__
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nc4na\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nc4na\n-----END PRIVATE KEY-----\n"
TLS = {"security_protocol": "SSL"}
SASL = {"security_protocol": "SASL_SSL"}
PLAIN = {**SASL, "sasl_mechanism": "PLAIN", "sasl_plain_username": "u", "sasl_plain_password": "c4nary"}
OAUTH = {**SASL, "sasl_mechanism": "OAUTHBEARER"}
ENDPOINT = {
    **OAUTH,
    "sasl_oauthbearer_token_endpoint_url": "https://idp/token",
    "sasl_oauthbearer_client_credentials_client_id": "c",
    "sasl_oauthbearer_client_credentials_client_secret": "c4nary",
}
URL, GRANT = "sasl_oauthbearer_token_endpoint_url", "sasl_oauthbearer_grant_type"
CLIENT_ID = "sasl_oauthbearer_client_credentials_client_id"
METADATA, CONFIG = "sasl_oauthbearer_metadata_authentication_type", "sasl_oauthbearer_config"
KEY_FILE = "sasl_oauthbearer_assertion_private_key_file"
ASSERTION_FILE = "sasl_oauthbearer_assertion_file"
TEMPLATE = "sasl_oauthbearer_assertion_template_file"
AUD, ISS = "sasl_oauthbearer_assertion_claim_aud", "sasl_oauthbearer_assertion_claim_iss"
#: A client assertion instead of a secret, a grant by assertion, and Azure's managed identity.
CLIENT_ASSERTION = {**OAUTH, URL: "https://idp/token", CLIENT_ID: "c", KEY_FILE: FILE, AUD: "a"}
BEARER = {**OAUTH, URL: "https://idp/token", GRANT: JWT_BEARER, KEY_FILE: FILE, AUD: "a", ISS: "i"}
AZURE = {**OAUTH, METADATA: "azure_imds", CONFIG: "query=api-version=2018-02-01&resource=c4nary"}


def dots(options):
    return {name.replace("_", "."): value for name, value in options.items()}


#: Options that obey every rule and cause no warning.
GOOD = [
    {},
    TLS,
    {**TLS, "bootstrap_servers": "SSL://a:1,ssl://b:2,c"},
    {**TLS, "ssl_cafile": FILE, "ssl_certfile": FILE, "ssl_keyfile": FILE, "ssl_password": "p", "ssl_crlfile": FILE},
    {**TLS, "ssl_certfile": FILE},
    {**TLS, "ssl_keystore_location": FILE, "ssl_keystore_password": "p", "ssl_truststore_location": FILE},
    {**TLS, "ssl_keystore_type": "PEM", "ssl_keystore_key": KEY, "ssl_keystore_certificate_chain": CERTIFICATE},
    {**TLS, "ssl_password": "p", "ssl_key_password": "p", "ssl_certfile": FILE},
    {**TLS, "ssl_protocol": "TLSv1.2"},
    {**TLS, "ssl_check_hostname": True, "ssl_endpoint_identification_algorithm": "https", "ssl_cafile": None},
    {**TLS, "ssl_context": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), "ssl_check_hostname": True, "ssl_cafile": None},
    PLAIN,
    {**PLAIN, "security_protocol": "SASL_PLAINTEXT", "bootstrap_servers": "localhost,127.0.0.2,[::1]:9"},
    {**PLAIN, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", "bootstrap_servers": "a"},
    {**OAUTH, "sasl_oauth_token_provider": len},
    {**ENDPOINT, "sasl_login_retry_backoff_ms": 5},
    {**ENDPOINT, "security_protocol": "SASL_PLAINTEXT", "ssl_cafile": FILE, "bootstrap_servers": "127.0.0.1"},
    {**ENDPOINT, "sasl_oauthbearer_token_endpoint_url": "http://localhost:8080/token"},
    CLIENT_ASSERTION,
    {**OAUTH, URL: "https://idp/token", ASSERTION_FILE: FILE},
    {**OAUTH, URL: "https://idp/token", KEY_FILE: FILE, TEMPLATE: FILE},
    BEARER,
    {**OAUTH, URL: "https://idp/token", GRANT: JWT_BEARER, ASSERTION_FILE: FILE},
    AZURE,
    {**AZURE, URL: "http://169.254.169.254/metadata/identity/oauth2/token"},
    {**OAUTH, METADATA: "azure_imds", URL: "http://127.0.0.1:1/token?resource=r"},
    {**SASL, "sasl_mechanism": "GSSAPI", "sasl_kerberos_domain_name": "d"},
    {**SASL, "sasl_mechanism": "AWS_MSK_IAM", "sasl_aws_msk_iam_profile": "p"},
]


@pytest.mark.parametrize("options", GOOD)
def test_accepted_without_a_warning(options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ConsumerConfig.from_options(**options)
        ClientOptions.from_options(**options)
        ClientOptions.from_config(dots(options))


BAD = [
    ({"bootstrap_servers": "a,SSL://b:1"}, "bootstrap_servers has a server with SSL://, but security_protocol is"),
    ({**TLS, "bootstrap_servers": ["PLAINTEXT://a"]}, "has a server with PLAINTEXT://, but security_protocol is 'SSL'"),
    (
        {**TLS, "ssl_context": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), "ssl_check_hostname": False},
        "accordingly and leave out ssl_check_hostname",
    ),
    (
        {**TLS, "ssl_check_hostname": False, "ssl_endpoint_identification_algorithm": "https"},
        "ssl_check_hostname and ssl_endpoint_identification_algorithm contradict each other",
    ),
    (
        {**TLS, "ssl_cafile": FILE, "ssl_truststore_certificates": CERTIFICATE},
        "more than one option for the certificates to trust: give only one of ssl_cafile, ssl_truststore_certificates",
    ),
    ({**TLS, "ssl_certfile": FILE, "ssl_keystore_location": FILE}, "only one of ssl_certfile, ssl_keystore_location"),
    ({**TLS, "ssl_ciphers": "A", "ssl_cipher_suites": ["B"]}, "only one of ssl_ciphers, ssl_cipher_suites"),
    (
        {**TLS, "ssl_password": "c4nary1", "ssl_key_password": "c4nary2"},
        "ssl_password and ssl_key_password are not the same, but for the same key",
    ),
    ({**TLS, "ssl_keyfile": FILE}, "ssl_keyfile needs ssl_certfile"),
    ({**TLS, "ssl_keystore_key": KEY}, "ssl_keystore_key needs ssl_keystore_certificate_chain"),
    ({**TLS, "ssl_keystore_certificate_chain": CERTIFICATE}, "ssl_keystore_certificate_chain needs ssl_keystore_key"),
    ({**TLS, "ssl_keystore_password": "c4nary"}, "ssl_keystore_password needs ssl_keystore_location"),
    ({**TLS, "ssl_truststore_password": "c4nary"}, "ssl_truststore_password needs ssl_truststore_location"),
    (
        {**TLS, "ssl_keystore_type": "PEM", "ssl_keystore_location": FILE, "ssl_keystore_password": "c4nary"},
        "ssl_keystore_password is not for PEM, where a key has ssl_key_password",
    ),
    (
        {**TLS, "ssl_truststore_type": "PKCS12", "ssl_truststore_certificates": CERTIFICATE},
        "ssl_truststore_certificates is PEM text, but ssl_truststore_type is 'PKCS12'",
    ),
    ({**TLS, "ssl_protocol": "TLSv1.2", "ssl_enabled_protocols": "TLSv1.3"}, "which ssl_enabled_protocols does not"),
    (SASL, "sasl_mechanism is missing: security_protocol='SASL_SSL' needs one of PLAIN, SCRAM-SHA-256"),
    ({**SASL, "sasl_mechanism": "PLAIN"}, "sasl_plain_username and sasl_plain_password are missing, which PLAIN needs"),
    ({**PLAIN, "sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_password": None}, "sasl_plain_password is missing"),
    (OAUTH, "OAUTHBEARER needs sasl_oauth_token_provider, or sasl_oauthbearer_token_endpoint_url with"),
    ({**ENDPOINT, "sasl_oauth_token_provider": len}, "more than one option for the source of tokens"),
    (
        {**OAUTH, "sasl_oauthbearer_client_credentials_client_secret": "c4nary"},
        "sasl_oauthbearer_token_endpoint_url and sasl_oauthbearer_client_credentials_client_id are missing, to request",
    ),
    (
        {**ENDPOINT, KEY_FILE: FILE, AUD: "a"},
        "the client has both an assertion and a secret: leave out sasl_oauthbearer_client_credentials_client_se",
    ),
    (
        {**CLIENT_ASSERTION, ASSERTION_FILE: FILE},
        f"more than one option for the assertion: give only one of {ASSERTION_FILE}",
    ),
    ({**CLIENT_ASSERTION, KEY_FILE: None, AUD: None, ISS: "i"}, f"{ISS} needs {KEY_FILE}, or another of "),
    (
        {**OAUTH, URL: "https://idp/token", GRANT: JWT_BEARER},
        f"{GRANT}='{JWT_BEARER}' needs {KEY_FILE}, or another of ",
    ),
    ({**CLIENT_ASSERTION, AUD: None}, f"{AUD} is missing, which assertions need"),
    ({**CLIENT_ASSERTION, AUD: None, CLIENT_ID: None}, f"{AUD} and {ISS} are missing, which assertions need"),
    ({**BEARER, ISS: None}, f"{ISS} is missing, which assertions need"),
    ({**BEARER, URL: None}, f"{URL} is missing, to request tokens"),
    ({**AZURE, CONFIG: None}, f"azure_imds needs {CONFIG}='query=api-version=2018-02-01&resource=...'"),
    ({**AZURE, CONFIG: ""}, f"azure_imds needs {CONFIG}='query=api-version=2018-02-01&resource=...'"),
    ({**AZURE, "sasl_oauth_token_provider": len}, f"only one of sasl_oauth_token_provider, {METADATA}"),
    ({**ENDPOINT, CONFIG: "query=a=c4nary"}, f"{CONFIG} needs {METADATA}='azure_imds'"),
    ({**AZURE, "sasl_oauth_token_provider": len, METADATA: "none"}, f"{CONFIG} needs {METADATA}='azure_imds'"),
    ({**AZURE, CONFIG: "principal=c4nary"}, "unsecured tokens are not made here, pass "),
    ({**OAUTH, METADATA: "aws_iam"}, "='AWS_MSK_IAM', or "),
    (
        {**OAUTH, GRANT: "org.apache.kafka.common.FileJwtRetriever"},
        "classes cannot be loaded: pass sasl_oauth_token_pr",
    ),
    (
        {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "AWS_MSK_IAM"},
        "AWS_MSK_IAM needs security_protocol='SASL_SSL'",
    ),
    (
        {**SASL, "sasl_mechanism": "AWS_MSK_IAM", "sasl_aws_msk_iam_role_external_id": "c4nary"},
        "sasl_aws_msk_iam_role_external_id needs sasl_aws_msk_iam_role_arn",
    ),
    ({**TLS, "ssl_keystore_type": "JKS"}, "keytool -importkeystore"),
    ({**TLS, "ssl_protocol": "TLSv1"}, "RFC 8996"),
    ({**PLAIN, "sasl_plain_username": "u\0c4nary"[:2]}, "without NUL characters"),
]


def test_a_private_key_beside_a_key_store_is_one_option_too_many():
    with pytest.raises(KafkaConfigurationError, match="private key of the client: give only one of ssl_keyfile, ssl_k"):
        ConsumerConfig.from_options(**TLS, ssl_keyfile=FILE, ssl_keystore_location=FILE)


@pytest.mark.parametrize(("options", "says"), BAD)
def test_a_broken_rule_is_one_error_in_the_spelling_of_the_caller(options, says):
    for build in (ConsumerConfig.from_options, ClientOptions.from_options):
        with pytest.raises(KafkaConfigurationError) as caught:
            build(**options)
        assert says in str(caught.value)
        assert "\n" not in str(caught.value)
        assert "c4na" not in str(caught.value)
    with pytest.raises(KafkaConfigurationError) as caught:
        ConsumerConfig.from_config(dots(options))
    for name in DEFAULTS:
        if name in says:
            assert name.replace("_", ".") in str(caught.value)


def context(check_hostname, verify_mode):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = check_hostname
    made.verify_mode = verify_mode
    return made


RISKS = [
    ({**TLS, "ssl_context": context(False, ssl.CERT_REQUIRED)}, ["ssl_context switches off the check of host names"]),
    ({**TLS, "ssl_context": context(False, ssl.CERT_NONE)}, ["ssl_context does not verify certificates"]),
    ({**TLS, "ssl_check_hostname": False}, ["ssl_check_hostname switches off the check of host names: whoever"]),
    (
        {**TLS, "ssl_endpoint_identification_algorithm": ""},
        ["ssl_check_hostname switches off the check of host names: whoever"],
    ),
    (
        {**PLAIN, "security_protocol": "SASL_PLAINTEXT", "bootstrap_servers": "localhost,broker.example:1"},
        ["PLAIN sends the password in the clear to broker.example"],
    ),
    (
        {**OAUTH, "sasl_oauth_token_provider": len, "security_protocol": "SASL_PLAINTEXT", "bootstrap_servers": "10.1"},
        ["OAUTHBEARER sends the token in the clear to 10.1"],
    ),
    (
        {**ENDPOINT, "sasl_oauthbearer_token_endpoint_url": "http://idp/token"},
        ["sasl_oauthbearer_token_endpoint_url sends the client secret in the clear: use https"],
    ),
    ({**BEARER, URL: "http://idp/token"}, [f"{URL} sends the assertion in the clear: use https"]),
    ({**CLIENT_ASSERTION, URL: "http://169.254.1.1/"}, [f"{URL} sends the assertion in the clear: use https"]),
    ({**AZURE, URL: "http://idp/token"}, [f"{URL} gets the token in the clear: use https"]),
    ({**BEARER, CLIENT_ID: "c"}, [f"with {GRANT}='{JWT_BEARER}', these options have no effect: {CLIENT_ID}"]),
    (
        {**OAUTH, URL: "https://idp/token", ASSERTION_FILE: FILE, AUD: "a"},
        [f"with {ASSERTION_FILE}={FILE!r}, these options have no effect: {AUD}"],
    ),
    (
        {**AZURE, GRANT: JWT_BEARER, CLIENT_ID: "c", ASSERTION_FILE: FILE},
        [f"with {METADATA}='azure_imds', these options have no effect: {GRANT}, {CLIENT_ID}, {ASSERTION_FILE}"],
    ),
    (
        {"ssl_cafile": FILE, "sasl_plain_password": "c4nary"},
        [
            "with security_protocol='PLAINTEXT', these options have no effect: ssl_cafile",
            "with security_protocol='PLAINTEXT', these options have no effect: sasl_plain_password",
        ],
    ),
    (
        {**OAUTH, "sasl_oauth_token_provider": len, "sasl_plain_password": "c4nary"},
        ["with sasl_mechanism='OAUTHBEARER', these options have no effect: sasl_plain_password"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("options", "says"), RISKS)
def test_risks_and_options_without_effect_are_warnings(options, says):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ConsumerConfig.from_options(**options)
    assert [warning.category for warning in caught] == [ConfigurationWarning] * len(says)
    for warning, start in zip(caught, says, strict=True):
        assert str(warning.message).startswith(start)
        assert "c4nary" not in str(warning.message)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ConsumerConfig.from_config(dots(options))
    assert len(caught) == len(says)


def test_javas_name_is_used_for_the_risk_in_a_config_with_dots():
    with pytest.warns(ConfigurationWarning, match=r"^ssl\.endpoint\.identification\.algorithm switches off"):
        ConsumerConfig.from_config({"security.protocol": "ssl", "ssl.endpoint.identification.algorithm": ""})


def test_both_options_for_the_host_name_check_agree_in_the_config():
    with pytest.warns(ConfigurationWarning):
        java = ConsumerConfig.from_options(**TLS, ssl_endpoint_identification_algorithm="")
    with pytest.warns(ConfigurationWarning):
        python = ConsumerConfig.from_options(**TLS, ssl_check_hostname=False)
    assert java == python
    assert (java.ssl_check_hostname, java.ssl_endpoint_identification_algorithm) == (False, "")


# -- librdkafka's names

SAMPLES = {
    "sasl_mechanism": "PLAIN",
    "ssl_truststore_certificates": CERTIFICATE,
    "ssl_keystore_certificate_chain": CERTIFICATE,
    "ssl_keystore_key": KEY,
    "sasl_oauth_token_provider": len,
    GRANT: "client_credentials",
}


@pytest.mark.parametrize(("theirs", "ours"), [pair for pair in ALIASES.items() if pair[1].startswith(("ssl", "sasl"))])
def test_librdkafkas_names(theirs, ours):
    """An alias sets the option, and errors name the alias."""
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        for given in (theirs, ours.replace("_", ".")):
            value = SAMPLES.get(ours, FILE)
            try:
                built = ConsumerConfig.from_config({given: value})
            except KafkaConfigurationError as error:
                assert " needs " in str(error)  # a key without its certificate
                assert given in str(error)
            else:
                assert getattr(built, ours) == value
    with pytest.raises(KafkaConfigurationError, match=f"{theirs} and {ours.replace('_', '.')} are the same option"):
        ConsumerConfig.from_config({theirs: value, ours.replace("_", "."): value})
    with pytest.raises(KafkaConfigurationError, match=f"did you mean '{ours}'"):
        ConsumerConfig.from_options(**{theirs.replace(".", "_"): value})


def test_a_configuration_of_confluent_kafka():
    config = ConsumerConfig.from_config(
        {
            "bootstrap.servers": "pkc-1.eu.confluent.cloud:9092",
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "key",
            "sasl.password": "c4nary",
            "ssl.ca.location": FILE,
            "enable.ssl.certificate.verification": "true",
            "group.id": "g",
        }
    )
    assert (config.sasl_mechanism, config.sasl_plain_username, config.ssl_cafile) == ("PLAIN", "key", FILE)
    config = ConsumerConfig.from_config(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "c",
            "sasl.oauthbearer.client.secret": "c4nary",
            "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
            "sasl.oauthbearer.extensions": "logicalCluster=lkc,identityPoolId=p",
        }
    )
    assert config.sasl_oauthbearer_extensions == {"logicalCluster": "lkc", "identityPoolId": "p"}


def test_logins_by_assertion_and_by_azure_in_librdkafkas_words():
    common = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}
    config = ConsumerConfig.from_config(
        {
            **common,
            "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
            "sasl.oauthbearer.assertion.algorithm": "RS256",
            "sasl.oauthbearer.assertion.private.key.pem": KEY,
            "sasl.oauthbearer.assertion.private.key.passphrase": "c4nary",
            "sasl.oauthbearer.assertion.jwt.template.file": FILE,
            "sasl.oauthbearer.assertion.claim.exp.seconds": "60",
            "sasl.oauthbearer.assertion.claim.jti.include": "true",
        }
    )
    assert config.sasl_oauthbearer_grant_type == JWT_BEARER
    assert config.sasl_oauthbearer_assertion_template_file == FILE
    assert config.sasl_oauthbearer_assertion_claim_jti_include
    query = "query=api-version=2025-04-07&resource=api://x&client_id=y"
    given = {**common, "sasl.oauthbearer.metadata.authentication.type": "azure_imds", "sasl.oauthbearer.config": query}
    assert ConsumerConfig.from_config(given).sasl_oauthbearer_config == query


def test_javas_classes_choose_the_grant():
    package = "org.apache.kafka.common.security.oauthbearer."
    retriever = "sasl.oauthbearer.jwt.retriever.class"
    given = {**dots(BEARER), retriever: f"{package}JwtBearerJwtRetriever"}
    del given[GRANT.replace("_", ".")]
    assert ConsumerConfig.from_config(given).sasl_oauthbearer_grant_type == JWT_BEARER
    for name in ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever"):
        config = ConsumerConfig.from_config({**dots(ENDPOINT), retriever: package + name})
        assert config.sasl_oauthbearer_grant_type == "client_credentials"


@pytest.mark.parametrize("value", [False, "false", "no"])
def test_certificates_are_always_verified(value):
    with pytest.raises(KafkaConfigurationError, match=r"can read and change everything.*ssl\.ca\.location"):
        ConsumerConfig.from_config({"security.protocol": "SSL", "enable.ssl.certificate.verification": value})


def test_a_missing_credential_is_named_as_in_the_given_spelling():
    with pytest.raises(KafkaConfigurationError, match=r"sasl\.plain\.password is missing"):
        ConsumerConfig.from_config({"security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN", "sasl.username": "u"})


def test_schemes_of_servers():
    assert server_schemes("ssl://a, b,PLAINTEXT://c") == {"SSL", "PLAINTEXT"}
    assert server_schemes(["SASL_SSL://a:1"]) == {"SASL_SSL"}
    for value in (None, 7, [7], "a:1"):
        assert server_schemes(value) == set()
