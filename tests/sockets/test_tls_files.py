"""Certificates and keys from PEM files, PEM text and PKCS12 stores, and what is wrong with them."""

import os
import stat
import sys
import warnings

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    NoEncryption,
    load_pem_private_key,
    pkcs12,
)
from hypothesis import given
from hypothesis import strategies as texts

from thinconsumer.config import ClientOptions
from thinconsumer.errors import KafkaConfigurationError
from thinconsumer.sockets import tls_files
from thinconsumer.sockets.tls_files import own_certificate, pem_blocks, pem_file, revocation_lists, trusted_certificates

KEY = b"-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----\n"
CERTIFICATE = b"-----BEGIN CERTIFICATE-----\npublic\n-----END CERTIFICATE-----\n"


@pytest.fixture(scope="module")
def issued(authority):
    return authority.issue_cert("client.example")


@pytest.fixture
def write(tmp_path):
    def write(data, name="file"):
        (tmp_path / name).write_bytes(data)
        return str(tmp_path / name)

    return write


def store(issued, authority, password):
    """Return a PKCS12 store with a key, its certificate, and others in no order."""
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    (leaf,) = (x509.load_pem_x509_certificate(pem.bytes()) for pem in issued.cert_chain_pems[:1])
    root = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    encryption = NoEncryption() if password is None else BestAvailableEncryption(password)
    return pkcs12.serialize_key_and_certificates(b"name", key, leaf, [root], encryption)


def trust_store(authority, password):
    root = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    entry = pkcs12.PKCS12Certificate(root, b"root")
    return pkcs12.serialize_java_truststore([entry], BestAvailableEncryption(password))


# PEM


def test_blocks_are_found_between_other_text():
    first, second = pem_blocks("Größe\n".encode() + KEY + b"subject=/CN=x\n" + CERTIFICATE, "x")
    assert (first.is_private_key, first.is_certificate) == (True, False)
    assert (second.is_private_key, second.is_certificate) == (False, True)
    assert second.text == CERTIFICATE


@pytest.mark.parametrize("size", [20, 40, len(KEY) - 10])
def test_a_block_without_an_end_is_an_error(size):
    with pytest.raises(KafkaConfigurationError, match="here: a PEM block has no end"):
        pem_blocks(CERTIFICATE + KEY[:size], "here")


@given(
    texts.lists(texts.sampled_from([KEY, CERTIFICATE, b"-----BEGIN ", b"-----END ", b"-----", b"CERTIFICATE", b"\n"]))
)
def test_any_text_has_blocks_or_is_an_error(pieces):
    data = b"".join(pieces)
    try:
        blocks = pem_blocks(data, "x")
    except KafkaConfigurationError:
        return
    position = 0
    for block in blocks:
        position = data.index(block.text.rstrip(b"\n"), position) + 1


def test_trusted_certificates_of_all_options_are_joined(write, authority):
    pem = authority.cert_pem.bytes()
    options = ClientOptions(
        ssl_cafile=write(b"# comment\n" + pem, "ca"),
        ssl_truststore_location=write(pem, "store"),
        ssl_truststore_certificates=pem.decode(),
    )
    assert trusted_certificates(options).count("BEGIN CERTIFICATE") == 3
    assert trusted_certificates(ClientOptions()) == ""


@pytest.mark.parametrize("option", ["ssl_cafile", "ssl_truststore_location"])
@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "neither PEM nor PKCS12|no certificate"),
        (KEY, "no certificate in PEM form"),
        (b"\xfe\xed\xfe\xed\0\0\0\2", "keytool -importkeystore"),
        (b"\xce\xce\xce\xce\0\0\0\2", "keytool -importkeystore"),
    ],
)
def test_a_file_without_trusted_certificates_is_refused(write, option, data, text):
    path = write(data)
    with pytest.raises(KafkaConfigurationError, match=text) as caught:
        trusted_certificates(ClientOptions(**{option: path}))
    assert f"{option}: {path}" in str(caught.value)


def test_a_missing_file_and_one_that_is_too_large_are_refused(write, tmp_path, monkeypatch):
    missing = str(tmp_path / "missing")
    with pytest.raises(KafkaConfigurationError, match=f"ssl_cafile: {missing}: No such file"):
        trusted_certificates(ClientOptions(ssl_cafile=missing))
    monkeypatch.setattr(tls_files, "FILE_BYTES_MAX", 10)
    with pytest.raises(KafkaConfigurationError, match="more than 10 bytes"):
        trusted_certificates(ClientOptions(ssl_cafile=write(CERTIFICATE)))


def test_only_revocation_lists_are_taken_from_their_file(write):
    crl = b"-----BEGIN X509 CRL-----\nlist\n-----END X509 CRL-----\n"
    assert revocation_lists(ClientOptions(ssl_crlfile=write(CERTIFICATE + crl))) == crl
    with pytest.raises(KafkaConfigurationError, match="no revocation list"):
        revocation_lists(ClientOptions(ssl_crlfile=write(CERTIFICATE)))


def test_no_own_certificate():
    assert own_certificate(ClientOptions()) is None


def test_own_certificate_files_are_used_where_they_are(write):
    certfile, keyfile = write(CERTIFICATE, "cert"), write(KEY, "key")
    own = own_certificate(ClientOptions(ssl_certfile=certfile, ssl_keyfile=keyfile, ssl_password="p"))
    assert (own.certfile, own.keyfile, own.password, own.pem) == (certfile, keyfile, "p", b"")
    both = write(KEY + CERTIFICATE, "both")
    assert own_certificate(ClientOptions(ssl_certfile=both)).keyfile is None
    own = own_certificate(ClientOptions(ssl_keystore_location=both, ssl_key_password="q", ssl_keystore_type="PEM"))
    assert (own.certfile, own.password) == (both, "q")
    assert "secret" not in repr(own)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"ssl_certfile": KEY}, "ssl_certfile: .*: no certificate"),
        ({"ssl_certfile": CERTIFICATE}, "ssl_certfile: .*: no private key"),
        ({"ssl_certfile": CERTIFICATE, "ssl_keyfile": CERTIFICATE}, "ssl_keyfile: .*: no private key"),
        ({"ssl_keyfile": KEY}, "ssl_keyfile is set, but not ssl_certfile"),
        ({"ssl_keystore_location": CERTIFICATE}, "ssl_keystore_location: .*: no private key"),
        ({"ssl_keystore_location": b"words"}, "neither PEM nor PKCS12"),
        ({"ssl_keystore_location": b"\xfe\xed\xfe\xed"}, "keytool -importkeystore"),
        ({"ssl_keystore_key": KEY}, "needed together"),
        ({"ssl_keystore_certificate_chain": CERTIFICATE}, "needed together"),
    ],
)
def test_a_missing_part_is_named(write, options, text):
    given = {
        name: value.decode() if name.endswith(("key", "chain")) else write(value, name)
        for name, value in options.items()
    }
    with pytest.raises(KafkaConfigurationError, match=text) as caught:
        own_certificate(ClientOptions(**given))
    assert "secret" not in str(caught.value)


def test_the_declared_type_must_be_the_contents_type(write):
    options = ClientOptions(ssl_keystore_location=write(KEY + CERTIFICATE), ssl_keystore_type="PKCS12")
    with pytest.raises(KafkaConfigurationError, match="the content is PEM, but ssl_keystore_type is PKCS12"):
        own_certificate(options)


# PKCS12


@pytest.mark.parametrize("password", [None, b"pass word"])
def test_a_pkcs12_key_store(write, issued, authority, password):
    options = {"ssl_keystore_location": write(store(issued, authority, password))}
    if password:
        options["ssl_keystore_password"] = password.decode()
    own = own_certificate(ClientOptions(**options))
    labels = [block.label for block in pem_blocks(own.pem, "")]
    assert labels == [b"CERTIFICATE", b"CERTIFICATE", b"PRIVATE KEY"]
    first = x509.load_pem_x509_certificate(own.pem)
    assert first == x509.load_pem_x509_certificate(issued.cert_chain_pems[0].bytes())
    assert own.password is None


def test_a_pkcs12_trust_store(write, authority):
    path = write(trust_store(authority, b"changeit"))
    options = ClientOptions(ssl_truststore_location=path, ssl_truststore_password="changeit")
    assert trusted_certificates(options).encode() == authority.cert_pem.bytes()


@pytest.mark.parametrize(
    ("password", "text"),
    [(None, "set ssl_keystore_password"), ("other secret", "ssl_keystore_password is wrong, or the file is damaged")],
)
def test_a_wrong_password_of_a_pkcs12_store(write, issued, authority, password, text):
    path = write(store(issued, authority, b"right secret"))
    options = ClientOptions(ssl_keystore_location=path, ssl_keystore_password=password)
    with pytest.raises(KafkaConfigurationError, match=text) as caught:
        own_certificate(options)
    assert " secret" not in str(caught.value)
    with pytest.raises(KafkaConfigurationError, match="ssl_truststore_password"):
        trusted_certificates(ClientOptions(ssl_truststore_location=path, ssl_truststore_password=password))


def test_a_truncated_pkcs12_store(write, issued, authority):
    path = write(store(issued, authority, b"p")[:100])
    with pytest.raises(KafkaConfigurationError, match="the file is damaged"):
        own_certificate(ClientOptions(ssl_keystore_location=path, ssl_keystore_password="p"))


def test_warnings_about_a_stores_encoding_are_not_passed_on(write, issued, authority, monkeypatch):
    """Stores of old programs are BER; a program that turns warnings into errors could not use them."""
    load = pkcs12.load_pkcs12

    def load_and_warn(data, password):
        warnings.warn("could not be parsed as DER", UserWarning, stacklevel=2)
        return load(data, password)

    monkeypatch.setattr(pkcs12, "load_pkcs12", load_and_warn)
    assert own_certificate(ClientOptions(ssl_keystore_location=write(store(issued, authority, None)))).pem


def test_a_pkcs12_store_without_a_key(write, authority):
    path = write(trust_store(authority, b"p"))
    with pytest.raises(KafkaConfigurationError, match="no private key with a certificate"):
        own_certificate(ClientOptions(ssl_keystore_location=path, ssl_keystore_password="p"))


def test_pkcs12_without_the_package_names_the_extra(write, issued, authority, monkeypatch):
    path = write(store(issued, authority, None))

    def no_module(name):
        raise ImportError(name)

    monkeypatch.setattr(tls_files, "import_uninterrupted", no_module)
    with pytest.raises(KafkaConfigurationError, match=r"pip install thinconsumer\[pkcs12\].*openssl pkcs12 -in"):
        own_certificate(ClientOptions(ssl_keystore_location=path))


# Files for OpenSSL


@pytest.mark.skipif(sys.platform != "linux", reason="files in memory are Linux's")
def test_a_key_goes_through_memory(count_fds):
    before = count_fds()
    with pem_file(KEY) as path:
        assert path.startswith("/proc/self/fd/")
        for _ in range(2):
            with open(path, "rb") as file:
                assert file.read() == KEY
    assert count_fds() == before


@pytest.fixture(params=["no system call", "forbidden", "no /proc"])
def no_memory_files(request, monkeypatch):
    if request.param == "no system call":
        monkeypatch.delattr(os, "memfd_create", raising=False)
    elif request.param == "forbidden":

        def refuse(name):
            raise PermissionError(1, "not permitted")

        monkeypatch.setattr(os, "memfd_create", refuse, raising=False)
    else:
        monkeypatch.setattr(os, "access", lambda path, mode: False)


def test_a_temporary_file_is_private_and_removed(no_memory_files, tmp_path, monkeypatch, count_fds):
    monkeypatch.setattr(tls_files.tempfile, "tempdir", str(tmp_path))
    before = count_fds()
    with pem_file(KEY) as path:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
        with open(path, "rb") as file:
            assert file.read() == KEY
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ZeroDivisionError), pem_file(KEY):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    assert count_fds() == before


def test_failures_of_temporary_files_are_errors(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(tls_files.tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(KafkaConfigurationError, match="no temporary file for a private key"), pem_file(KEY):
        pass
    monkeypatch.setattr(tls_files.tempfile, "tempdir", str(tmp_path))

    def refuse(path):
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(os, "rmdir", refuse)
    with pytest.raises(KafkaConfigurationError, match="removing it failed: not permitted"), pem_file(KEY) as path:
        pass
    assert not os.path.exists(path)


def test_a_disk_that_is_full_is_an_error(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(tls_files.tempfile, "tempdir", str(tmp_path))

    def full(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tls_files.os, "open", full)
    with pytest.raises(KafkaConfigurationError, match="No space left"), pem_file(KEY):
        pass
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []
