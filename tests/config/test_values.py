"""Parsing of server addresses, durations, reset policies and deserializers."""

import contextlib
import ipaddress
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer.config.values import (
    INT64_MAX,
    Deserializer,
    HostPort,
    OffsetResetPolicy,
    OffsetResetStrategy,
    parse_duration_ms,
    parse_server,
)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("localhost", "localhost", 9092),
        ("broker-1.example.com:9093", "broker-1.example.com", 9093),
        ("  spaced:1  ", "spaced", 1),
        ("10.0.0.7:65535", "10.0.0.7", 65535),
        ("[::1]:9094", "::1", 9094),
        ("[::1]", "::1", 9092),
        ("[fe80::1%eth0]:9092", "fe80::1%eth0", 9092),
        ("PLAINTEXT://host:9095", "host", 9095),
        ("plaintext://[2001:db8::1]:9095", "2001:db8::1", 9095),
        ("under_score", "under_score", 9092),
        ("b\u00fccher.example:9092", "b\u00fccher.example", 9092),
    ],
)
def test_valid_addresses_are_parsed(text, host, port):
    assert parse_server(text) == HostPort(host, port)


INVALID_ADDRESSES = {
    "does not begin with a host name": [":9092", "", "a b:9092", "host/path", "h" * 256],
    "port must be a number from 1 to 65535": [
        "host:", "host:0", "host:65536", "host:-1", "host:9092x", "host:\u0661", "[::1]:"
    ],
    "write an IPv6 address in brackets": ["::1", "::1:9092"],
    "is not [ipv6] or [ipv6]:port": ["[::1", "[::1]9092"],
    "is not an IPv6 address": ["[host]:9092"],
    "which is no security protocol: write host:port": ["http://host:80", "host://", "INTERNAL://host:9092"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"), [(text, says) for says, texts in INVALID_ADDRESSES.items() for text in texts]
)
def test_an_invalid_address_is_named_in_the_error(text, says):
    with pytest.raises(ValueError) as caught:
        parse_server(text)
    assert says in str(caught.value)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["user:c4nary@host:9092", "PLAINTEXT://user:c4nary@host", "c4nary@"])
def test_errors_hide_user_info_of_addresses(text):
    with pytest.raises(ValueError) as caught:
        parse_server(text)
    assert "c4nary" not in str(caught.value)


ADDRESSES = st.one_of(
    st.builds(HostPort, st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,40}[a-z0-9])?", fullmatch=True), st.integers(1, 65535)),
    st.builds(HostPort, st.ip_addresses().map(str), st.integers(1, 65535)),
)


@given(ADDRESSES)
def test_addresses_round_trip_through_text(address):
    assert parse_server(str(address)) == address
    assert parse_server(f"PLAINTEXT://{address}") == address


@given(st.text(max_size=40))
def test_hostile_addresses_parse_or_raise_value_error(text):
    try:
        address = parse_server(text)
    except ValueError:
        return
    assert address.host
    assert 1 <= address.port <= 65535
    if ":" in address.host:
        ipaddress.IPv6Address(address.host)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT1H", 3_600_000), ("P1DT2H", 93_600_000), ("P7D", 604_800_000), ("PT36H90M", 135_000_000), ("PT0S", 0),
        ("PT1.5S", 1500), ("PT1,5S", 1500), ("PT1.S", 1000), ("PT0.0019S", 1), ("pt1h", 3_600_000),
        ("+PT1H", 3_600_000), ("P1DT1H1M1.001S", 90_061_001),
    ],
)  # fmt: skip
def test_durations_are_parsed_as_by_java(text, milliseconds):
    """Kafka 4.3.0's AutoOffsetResetStrategy accepts each of these."""
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "", "P", "PT", "P1DT", "P1W", "P1Y", "P1M", "PT1.5H", "PT.5S", " PT1H", "PT1H ", "-PT1H", "PT-1H", "1H", "PT1",
        "PT1S1M", "PT1H\n", "PT\u0661H", "PT9999999999999S", "P999999999999D",
    ],
)  # fmt: skip
def test_invalid_durations_raise(text):
    with pytest.raises(ValueError):
        parse_duration_ms(text)


@given(st.integers(0, 10**5), st.integers(0, 10**5), st.integers(0, 10**5), st.integers(0, 10**5), st.integers(0, 999))
def test_durations_add_up(days, hours, minutes, seconds, milliseconds):
    text = f"P{days}DT{hours}H{minutes}M{seconds}.{milliseconds:03}S"
    assert parse_duration_ms(text) == (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + milliseconds


@given(st.text(alphabet="PTDHMS0123456789.,+-", max_size=20))
def test_hostile_durations_parse_or_raise_value_error(text):
    with contextlib.suppress(ValueError):
        assert 0 <= parse_duration_ms(text) <= INT64_MAX


@given(
    st.one_of(
        st.sampled_from(["earliest", "latest", "none"]).map(OffsetResetPolicy.parse),
        st.integers(0, 10**14).map(lambda ms: OffsetResetPolicy(OffsetResetStrategy.BY_DURATION, ms)),
    )
)
def test_policies_round_trip_through_text(policy):
    assert OffsetResetPolicy.parse(str(policy)) == policy


@pytest.mark.parametrize("text", ["", "Latest", "by_duration", "by_duration:", "by_duration:soon", "earliest:PT1H"])
def test_invalid_policies_raise(text):
    with pytest.raises(ValueError):
        OffsetResetPolicy.parse(text)


class WithHeaders:
    closed = 0

    def deserialize(self, topic, headers, data):
        return topic, headers, data

    def close(self):
        self.closed += 1


class WithoutHeaders:
    def deserialize(self, topic, data):
        return topic, data


class WithDefaults:
    def deserialize(self, topic, headers=(), data=None):
        return topic, headers, data


class WithAnything:
    def deserialize(self, *args):
        return args


HEADERS = [("k", b"v")]


def called(user, topic, headers, data):
    """Return what the adapted deserializer returns for one record."""
    [result] = Deserializer.adapt(user).results(topic, [headers], [data])
    return result


@pytest.mark.parametrize(
    ("user", "result"),
    [
        (bytes.upper, b"DATA"),
        (lambda data: data + b"!", b"data!"),
        (WithHeaders(), ("orders", HEADERS, b"data")),
        (WithoutHeaders(), ("orders", b"data")),
        (WithDefaults(), ("orders", HEADERS, b"data")),
        (WithAnything(), ("orders", HEADERS, b"data")),
        (int, None),
    ],
)
def test_every_shape_of_deserializer_is_adapted(user, result):
    data = b"7" if user is int else b"data"
    assert called(user, "orders", HEADERS, data) == (7 if user is int else result)


def test_kafka_pythons_deserializers_are_adapted(kafka_python):
    assert called(kafka_python.JsonSerializer(), "t", [], b'{"a": 1}') == {"a": 1}
    assert called(kafka_python.DefaultSerializer(), "t", [], b"text") == "text"


def test_close_calls_the_users_close_if_there_is_one():
    user = WithHeaders()
    Deserializer.adapt(user).close()
    assert user.closed == 1
    assert Deserializer.adapt(len).close() is None


def test_a_type_error_inside_a_deserializer_is_raised_after_one_call():
    """kafka-python calls the method again without headers, which hides the error."""
    calls = []

    class Broken:
        def deserialize(self, topic, headers, data):
            calls.append(data)
            raise TypeError("cannot add a str to an int")

    with pytest.raises(TypeError, match="cannot add"):
        called(Broken(), "t", [], b"")
    assert len(calls) == 1


def test_a_method_without_a_signature_is_called_with_headers():
    class Hidden:
        @property
        def __signature__(self):
            raise ValueError("written in C")

        def __call__(self, topic, headers, data):
            return topic, headers, data

    user = type("User", (), {"deserialize": Hidden()})()
    assert called(user, "t", [], b"data") == ("t", [], b"data")


@pytest.mark.parametrize(
    ("user", "says"),
    [
        (7, "must be a callable"),
        (WithHeaders, "pass an instance"),
        (type("Odd", (), {"deserialize": 7})(), "cannot be called"),
        (type("Narrow", (), {"deserialize": lambda self, data: data})(), "takes neither"),
    ],
)
def test_invalid_deserializers_raise(user, says):
    with pytest.raises(ValueError, match=says):
        Deserializer.adapt(user)


def test_an_adapted_deserializer_stays_itself_and_can_be_pickled():
    adapted = Deserializer.adapt(len)
    assert Deserializer.adapt(adapted) is adapted
    assert called(pickle.loads(pickle.dumps(adapted)), "t", [], b"four") == 4
