"""sasl.jaas.config: its syntax, what it sets, and errors that contain nothing of it."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer.config import ConfigurationWarning, ConsumerConfig
from thinconsumer.config.jaas import MODULES, OPTIONS_MAX, login_of, parse_jaas
from thinconsumer.errors import KafkaConfigurationError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
IAM = "software.amazon.msk.auth.iam.IAMLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("m required;", {}),
        ("a.b.C$D-e_f REQUISITE ; ", {}),
        ("m required a=\"b\" c='d' e=f;", {"a": "b", "c": "d", "e": "f"}),
        ('\n m // comment ;\n optional /* a\n b */ a = "b"\n\t;\n// end', {"a": "b"}),
        (r'm required a="\"q\" \\ \n\t\101\7\'" b="\u";', {"a": '"q" \\ \n\tA\x07\'', "b": "u"}),
        ("m sufficient a='it\\'s \"so\"';", {"a": 'it\'s "so"'}),
        ('m required a="";', {"a": ""}),
        ('m required a="p;=//x/*";', {"a": "p;=//x/*"}),
        ("m required a=true b=12.5 c=-1 d=fünf;", {"a": "true", "b": "12.5", "c": "-1", "d": "fünf"}),
    ],
)
def test_syntax(text, options):
    entry = parse_jaas(text)
    assert entry.options == options
    assert "options" not in repr(entry)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no login module"),
        (" // only a comment", "has no login module"),
        ('"c4nary" required;', "expected the name of a login module at character 1"),
        ("m", "expected a control flag"),
        ("m c4nary;", "must be one of required, requisite"),
        ('m required a="c4nary"', "must end with ';'"),
        ("m required c4nary;", "expected '=' after the name of an option at character 18"),
        ("m required =c4nary;", "expected the name of an option, or ';' at character 12"),
        ('m required a="c4nary;', "whose quote is closed on the same line"),
        ('m required a="c4n\nary";', "whose quote is closed on the same line"),
        ('m required a="c4nary\\";', "whose quote is closed on the same line"),
        ("m required a=/c4nary;", "in quotes unless it has only letters and digits, at character 14"),
        ("m required a=;", "expected a value"),
        ("m required a=c4nary a=x;", "each option only once"),
        ("m required; n required;", "must have one login module only"),
        ("m required;c4nary", "must have one login module only"),
        ("m required /* c4nary", "expected the name of an option"),
        ("m required " + "".join(f"a{n}=b " for n in range(OPTIONS_MAX + 1)) + ";", "more than 100 options"),
    ],
)
def test_wrong_syntax(text, says):
    with pytest.raises(ValueError) as caught:
        parse_jaas(text)
    assert says in str(caught.value)
    assert "c4nary" not in str(caught.value)


def quoted(text, quote):
    escaped = {"\\": "\\\\", quote: f"\\{quote}", "\n": "\\n", "\r": "\\r"}
    return quote + "".join(escaped.get(character, character) for character in text) + quote


TEXTS = st.text(alphabet="ab01\"'\\;=/* \n\r\té€", max_size=30)


@given(st.dictionaries(st.sampled_from(["a", "user_name", "B-c.d"]), TEXTS), st.sampled_from("\"'"))
def test_quoted_values_come_back(options, quote):
    text = f"m required {' '.join(f'{name}={quoted(value, quote)}' for name, value in options.items())};"
    assert parse_jaas(text).options == options


@given(st.text(alphabet="m \"'\\;=/*\nrequired", max_size=60))
def test_any_text_is_parsed_or_refused(text):
    try:
        parse_jaas(text)
    except ValueError:
        pass


@pytest.mark.parametrize("part", ["/*", "// ", "\\", '"', "a=", " ", "*/", "/* */"])
def test_the_longest_text_takes_no_long_time(part):
    """A pattern that backtracks would take minutes for these."""
    start = time.perf_counter()
    for head in ("", "m required ", 'm required a="'):
        try:
            parse_jaas(head + part * (32767 // len(part)))
        except ValueError:
            pass
    assert time.perf_counter() - start < 2


@pytest.mark.parametrize("module", MODULES)
def test_modules_set_options_that_exist(module):
    options = ConsumerConfig.options()
    for theirs, ours in MODULES[module].options.items():
        assert ours in options, theirs
    assert set(MODULES[module].mechanisms) <= set(options["sasl_mechanism"].kind.words)


def values_of(text):
    return login_of(parse_jaas(text)).values


def test_user_and_password():
    expected = {"sasl_plain_username": "u", "sasl_plain_password": "p"}
    for module in (PLAIN, SCRAM, f"kafkashaded.{PLAIN}"):
        assert values_of(f'{module} required username="u" password="p";') == expected
    with pytest.raises(ValueError, match="PlainLoginModule needs password"):
        values_of(f'{PLAIN} required username="u" password="";')
    with pytest.raises(ValueError, match="delegation tokens are not supported"):
        values_of(f'{SCRAM} required username="u" password="p" tokenauth="true";')


def test_client_credentials_and_extensions():
    assert values_of(f'{OAUTH} required clientId="c" clientSecret="s" scope="x y" extension_pool="p";') == {
        "sasl_oauthbearer_client_credentials_client_id": "c",
        "sasl_oauthbearer_client_credentials_client_secret": "s",
        "sasl_oauthbearer_scope": "x y",
        "sasl_oauthbearer_extensions": {"pool": "p"},
    }
    assert login_of(parse_jaas(f'{OAUTH} required extension_pool="p" other="x";')).ignored == 1
    assert values_of(f"{OAUTH} required;") == {}
    with pytest.raises(ValueError, match="sasl_oauth_token_provider"):
        values_of(f'{OAUTH} required unsecuredLoginStringClaim_sub="c4nary";')


def test_kerberos():
    text = f'{KERBEROS} required useKeyTab={{}} storeKey=true keyTab="/k" principal="me@R" serviceName="kafka";'
    rest = {"sasl_kerberos_principal": "me@R", "sasl_kerberos_service_name": "kafka"}
    assert values_of(text.format("true")) == {**rest, "sasl_kerberos_keytab": "/k"}
    assert values_of(text.format("false")) == rest
    assert login_of(parse_jaas(text.format("true"))).ignored == 0
    with pytest.raises(ValueError, match="KRB5CCNAME"):
        values_of(f'{KERBEROS} required useTicketCache=true ticketCache="/c4nary";')


def test_aws():
    assert values_of(f'{IAM} required awsProfileName="p" awsDebugCreds=true;') == {"sasl_aws_msk_iam_profile": "p"}
    assert values_of(f'{IAM} required awsRoleArn="a" awsRoleSessionName="s" awsStsRegion="r";') == {
        "sasl_aws_msk_iam_role_arn": "a",
        "sasl_aws_msk_iam_role_session_name": "s",
        "sasl_aws_msk_iam_sts_region": "r",
    }
    with pytest.raises(ValueError, match="put them into a profile"):
        values_of(f'{IAM} required awsRoleArn="a" awsRoleAccessKeyId="c4nary";')


def test_an_unknown_module_is_refused_without_its_name():
    """A misplaced quote could make the name a part of a password."""
    with pytest.raises(ValueError, match="its login module is none of org") as caught:
        values_of("com.example.c4nary required;")
    assert "c4nary" not in str(caught.value)


def config(text, **more):
    return ConsumerConfig.from_config(
        {"security.protocol": "SASL_SSL", "sasl.jaas.config": text, **{k.replace("_", "."): v for k, v in more.items()}}
    )


def test_a_config_takes_mechanism_and_credentials_from_the_text():
    built = config(f'{PLAIN} required username="u" password="c4nary";')
    assert (built.sasl_mechanism, built.sasl_plain_username, built.sasl_plain_password) == ("PLAIN", "u", "c4nary")
    assert "c4nary" not in repr(built)
    built = config(f'{SCRAM} required username="u" password="p";', sasl_mechanism="SCRAM-SHA-512")
    assert built.sasl_mechanism == "SCRAM-SHA-512"
    assert config(f"{KERBEROS} required useTicketCache=true;").sasl_mechanism == "GSSAPI"
    with_line_break = ConsumerConfig.from_options(
        security_protocol="SASL_SSL", sasl_jaas_config=f"{KERBEROS} required;\n"
    )
    assert with_line_break.sasl_mechanism == "GSSAPI"


@pytest.mark.parametrize(
    ("text", "more", "says"),
    [
        (f'{SCRAM} required username="u" password="c4nary";', {}, "sasl.mechanism is missing"),
        (
            f'{SCRAM} required username="u" password="c4nary";',
            {"sasl_mechanism": "PLAIN"},
            "sasl.mechanism is 'PLAIN', but sasl.jaas.config has the login module ScramLoginModule, which is for SCRAM",
        ),
        (
            f'{PLAIN} required username="u" password="c4nary";',
            {"sasl_password": "c4nary2"},
            "sasl.password is not the same as in sasl.jaas.config: give it in one place",
        ),
        (
            f'{KERBEROS} required useKeyTab=true keyTab="/no/such/file";',
            {},
            "sasl.jaas.config: its value for sasl.kerberos.keytab: the file cannot be read",
        ),
        ("com.example.c4nary required;", {}, "sasl.jaas.config='***': its login module is none of"),
        (f"{PLAIN} required c4nary;", {}, "sasl.jaas.config='***': expected '='"),
    ],
)
def test_a_wrong_text_names_the_option(text, more, says):
    with pytest.raises(KafkaConfigurationError) as caught:
        config(text, **more)
    assert says in str(caught.value)
    assert "c4nary" not in str(caught.value)


def test_the_same_value_may_be_given_twice():
    built = config(f'{PLAIN} required username="u" password="p";', sasl_password="p", sasl_username="u")
    assert built.sasl_plain_password == "p"


def test_options_without_effect_are_counted_and_not_named():
    with pytest.warns(ConfigurationWarning, match="options of PlainLoginModule without effect: 1; known are user"):
        config(f'{PLAIN} required username="u" password="p" c4nary="x";')
