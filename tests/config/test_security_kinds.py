"""The kinds of option values for TLS and SASL: what is accepted, and errors without secrets."""

import copy
import os
import pickle
import ssl
import time
from pathlib import Path

import pytest

from thinconsumer.config.security_kinds import (
    CipherSuites,
    ExistingFile,
    Extensions,
    Fraction,
    HostNameCheck,
    HttpUrl,
    ImdsConfig,
    KerberosName,
    PemText,
    Secret,
    SecretText,
    SslContext,
    TlsProtocols,
    TokenProvider,
    imds_query,
)


def error_of(kind, value):
    with pytest.raises(ValueError) as caught:
        kind.parse(value)
    message = f"{kind.show(value)}: {caught.value}"
    assert "c4nary" not in message
    return message


def test_a_secret_is_a_str_whose_repr_is_hidden():
    secret = Secret("c4nary")
    assert secret == "c4nary"
    assert secret.encode() == b"c4nary"
    for other in (secret, copy.deepcopy(secret), pickle.loads(pickle.dumps(secret))):
        assert other == secret
        assert repr([other]) == "['***']"


def test_secret_texts():
    kind = SecretText()
    assert type(kind.parse(" p ")) is Secret
    assert kind.from_text(" p ") == "p"
    assert kind.is_secret
    for value, says in [
        (b"c4nary", "must be a str, not bytes"),
        ("", "must not be empty"),
        ("c4nary\n", "ends with a line break"),
        ("c4n\0ary", "NUL"),
        ("c4nary\ud800", "UTF-8"),
        ("c4nary" * 10000, "at most 32767"),
    ]:
        assert says in error_of(kind, value)


BODY = "QUJD" * 40
CERTIFICATE = f"-----BEGIN CERTIFICATE-----\n{BODY[:64]}\n{BODY[64:128]}\n{BODY[128:]}\n-----END CERTIFICATE-----\n"


def test_pem_text():
    kind = PemText("CERTIFICATE")
    assert kind.parse(f"subject: x\n{CERTIFICATE}") == f"subject: x\n{CERTIFICATE}"
    assert repr(kind.parse(CERTIFICATE)) == "'***'"
    assert kind.from_text(" x ") == " x "
    in_one_line = CERTIFICATE.replace("\n", " ")
    assert kind.parse(in_one_line + in_one_line).split() == (CERTIFICATE * 2).split()
    for label in ("PRIVATE KEY", "RSA PRIVATE KEY", "ENCRYPTED PRIVATE KEY"):
        PemText("PRIVATE KEY").parse(f"-----BEGIN {label}-----\nAAAA\n-----END {label}-----")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"c4nary", "must be a str, not bytes"),
        ("c4nary", "for the path of a file"),
        ("-----BEGIN PRIVATE KEY-----\nc4nary\n-----END PRIVATE KEY-----", "must have PEM text with -----BEGIN CERT"),
        ("-----BEGIN CERTIFICATE-----\nc4nary", "and its end"),
        (CERTIFICATE.replace("\n", "\\n"), "replace them by line breaks"),
        ("-----BEGIN CERTIFICATE-----c4nary!-----END CERTIFICATE-----", "its CERTIFICATE is not base64"),
        ("c4nary" * 200_000, "at most 1048576"),
    ],
)
def test_wrong_pem_text(value, says):
    assert says in error_of(PemText("CERTIFICATE"), value)


def test_many_unfinished_blocks_take_no_long_time():
    start = time.perf_counter()
    assert "must have PEM text" in error_of(PemText("CERTIFICATE"), "-----BEGIN CERTIFICATE-----\n" * 37_000)
    assert time.perf_counter() - start < 2


def test_files(tmp_path):
    kind = ExistingFile()
    assert kind.parse(Path(__file__)) == __file__
    (tmp_path / "empty").touch()
    assert kind.parse(str(tmp_path / "empty")) == str(tmp_path / "empty")
    assert "No such file" in error_of(kind, str(tmp_path / "none"))
    assert "is a directory" in error_of(kind, str(tmp_path))
    for value in (7, b"x"):
        assert "must be the path of a file, not " in error_of(kind, value)
    for value in ("", "a\0b"):
        assert "must be the path of a file" in error_of(kind, value)
    assert "not PEM text" in error_of(kind, "-----BEGIN PRIVATE KEY-----c4nary")
    for magic in (b"\xfe\xed\xfe\xed\0\0\0\2", b"\xce\xce\xce\xce\0\0\0\2"):
        (tmp_path / "store.jks").write_bytes(magic)
        assert "keytool -importkeystore" in error_of(kind, str(tmp_path / "store.jks"))


def test_an_unreadable_file(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "key.pem").touch()
    monkeypatch.setattr("thinconsumer.config.security_kinds.open", refuse, raising=False)
    assert "the file cannot be read: Permission denied" in error_of(ExistingFile(), str(tmp_path / "key.pem"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes need POSIX")
def test_a_pipe_is_refused_without_waiting_for_its_writer(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "no regular file" in error_of(ExistingFile(), str(tmp_path / "pipe"))


def test_urls():
    kind = HttpUrl()
    for url in ("https://idp.example/token", "http://[::1]:8080/realms/a?b=c"):
        assert kind.parse(url) == url
    for value, says in [
        (7, "must be a str"),
        ("ftp://a", "must begin with https:// and a host"),
        ("", "must begin with https://"),
        ("idp.example/token", "must begin with https://"),
        ("https:///token", "must begin with https://"),
        ("https://idp:0/token", "must begin with https://"),
        ("https://id,p/token", "must begin with https://"),
        ("https://[::1%25eth0]/token", "must begin with https://"),
        ("https://idp:99999/token", "is not a URL"),
        ("https://[::1/token", "is not a URL"),
        ("https://idp/token\r\nX: y", "printable ASCII"),
        ("https://bücher.example/", "printable ASCII"),
        ("https://idp/token#part", "must not have a fragment"),
        ("file:///token", "pass sasl_oauth_token_provider"),
        ("https://me:c4nary@host/", "must not contain a user"),
        ("https://host:port/?c4nary", "is not a URL"),
        ("https://host/ x?c4nary", "printable ASCII"),
        ("https://host/?" + "c4nary" * 1000, "at most 2048"),
    ]:
        assert says in error_of(kind, value)
    assert kind.show("https://host/?client_secret=c4nary") == "'https://host/?...'"


def test_queries_for_azure():
    kind = ImdsConfig()
    for text in ("query=a=b&c=d", "x=y, query=a=b&c=d", "params=a=b&c=d"):
        assert kind.parse(text) == text and imds_query(text) == "a=b&c=d"
    assert kind.parse("") == imds_query("") == imds_query("principal=me") == ""
    for value in ("query", "query=", "principal=c4nary"):
        assert "unsecured tokens are not made here" in error_of(kind, value)
    for value in ("query=a b", "query=a\r\nX: y", "query=a#c4nary", "query=ä", "query=" + "c4nary" * 1000):
        assert "printable ASCII characters" in error_of(kind, value)


def test_ssl_contexts():
    kind = SslContext()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert kind.parse(context) is context
    assert "must be an ssl.SSLContext, not str" in error_of(kind, "c4nary"[:0])
    assert "is for servers" in error_of(kind, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    with pytest.raises(ValueError, match="cannot be given as text"):
        kind.from_text("x")


def test_lists_of_protocols_and_ciphers():
    assert TlsProtocols().parse("TLSv1.3,TLSv1.2, TLSv1.3") == ("TLSv1.3", "TLSv1.2")
    assert "RFC 8996" in error_of(TlsProtocols(), ["TLSv1.1"])
    assert "which is none of TLSv1.2, TLSv1.3" in error_of(TlsProtocols(), ["tls"])
    assert CipherSuites().parse("A-B:C_D, E") == ("A-B", "C_D", "E")
    assert "not the name of a cipher suite" in error_of(CipherSuites(), ["a b"])
    for value in (7, [7]):
        assert "must be a list of str" in error_of(CipherSuites(), value)
    for value in ("", ["a"] * 101):
        assert "at least one name" in error_of(CipherSuites(), value)


def test_the_host_name_check():
    assert [HostNameCheck().parse(word) for word in ("https", "HTTPS", "", "none")] == ["https", "https", "", ""]
    assert "did you mean 'https'" in error_of(HostNameCheck(), "http")
    assert "must be 'https' or ''" in error_of(HostNameCheck(), False)


def test_fractions():
    kind = Fraction(0.5, 1.0)
    assert [kind.parse(value) for value in (1, 0.5)] == [1.0, 0.5]
    assert [kind.from_text(text) for text in ("1", " .5", "0.75")] == [1.0, 0.5, 0.75]
    for value in (0.4, 1.1, float("nan")):
        assert "must be from 0.5 to 1.0" in error_of(kind, value)
    for value in (True, "0.5"):
        assert "must be a number" in error_of(kind, value)
    for text in ("", ".", "nan", "1e5", "-1"):
        with pytest.raises(ValueError, match="must be a number"):
            kind.from_text(text)


class Provider:
    def token(self):
        return "c4nary"


class AsyncProvider:
    async def token(self):
        return "c4nary"


def test_token_providers():
    kind = TokenProvider()
    provider = Provider()
    assert kind.parse(provider) is provider
    assert kind.parse(len) is len
    assert "must be instantiated" in error_of(kind, Provider)
    assert "async def" in error_of(kind, AsyncProvider())
    assert "a callable, or an object with a method token()" in error_of(kind, "c4nary")
    with pytest.raises(ValueError, match="cannot be given as text"):
        kind.from_text("c4nary")


def test_kerberos_names():
    name = type("Name", (), {"__module__": "gssapi.names"})()
    assert KerberosName().parse(name) is name
    assert KerberosName().parse("kafka@host.example") == "kafka@host.example"
    assert "must be service@host" in error_of(KerberosName(), "a b")
    assert "must be a gssapi.Name or a str" in error_of(KerberosName(), 7)


def test_extensions():
    kind = Extensions()
    parsed = kind.parse(kind.from_text("logicalCluster=lkc-1, pool = a=b ,"))
    assert parsed == {"logicalCluster": "lkc-1", "pool": "a=b"}
    assert "lkc" not in repr(parsed)
    for text in ("a", "a=c4nary,a=c4nary"):
        with pytest.raises(ValueError, match="each name once"):
            kind.from_text(text)
    for value, says in [
        ("a=c4nary", "must be a mapping"),
        ({"auth": "c4nary"}, "reserved name auth"),
        ({"c4nary!": "x"}, "not only letters"),
        ({7: "c4nary"}, "not only letters"),
        ({"a": "c4nary\x01"}, "printable ASCII"),
        ({"a": 7}, "the value of 'a' is not a str"),
        ({"a": ""}, "or is empty"),
        ({str(n): "x" for n in range(101)}, "at most 100"),
    ]:
        assert says in error_of(kind, value)


@pytest.mark.parametrize(
    "kind",
    [SecretText(), PemText("CERTIFICATE"), ExistingFile(), HttpUrl(), SslContext(), TlsProtocols(), CipherSuites(),
     HostNameCheck(), Fraction(0, 1), TokenProvider(), KerberosName(), Extensions()],
    ids=lambda kind: type(kind).__name__,
)  # fmt: skip
def test_descriptions_are_short(kind):
    assert 3 < len(kind.description) < 100
