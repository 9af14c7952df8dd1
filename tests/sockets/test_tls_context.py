"""Contexts from options, and files that change while a client runs."""

import datetime
import logging
import os
import shutil
import ssl
import traceback

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from thinconsumer.config import ClientOptions
from thinconsumer.errors import KafkaConfigurationError
from thinconsumer.sockets import tls_context
from thinconsumer.sockets.secured import broker_transport
from thinconsumer.sockets.tls_context import TlsContexts

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


class Files:
    def __init__(self, folder, authority):
        self.folder = folder
        self.ca = self.write("ca.pem", authority.cert_pem.bytes())
        self.leaf = authority.issue_cert("client.example")
        self.key_pem = self.leaf.private_key_pem.bytes()
        self.chain_pem = b"".join(pem.bytes() for pem in self.leaf.cert_chain_pems)
        key = load_pem_private_key(self.key_pem, None)
        encryption = BestAvailableEncryption(b"key secret")
        self.encrypted_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        certificate = x509.load_pem_x509_certificate(self.chain_pem)
        self.p12 = pkcs12.serialize_key_and_certificates(b"me", key, certificate, None, encryption)
        self.plain_p12 = pkcs12.serialize_key_and_certificates(b"me", key, certificate, None, NoEncryption())

    def write(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory, authority):
    return Files(tmp_path_factory.mktemp("files"), authority)


def new_context(**options):
    return TlsContexts(ClientOptions(security_protocol="SSL", **options)).current()


def test_without_options_the_system_decides_whom_to_trust(monkeypatch, files):
    monkeypatch.setenv("SSL_CERT_FILE", files.ca)
    context = new_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert (context.minimum_version, context.maximum_version) == (V12, V13)
    assert context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN
    assert [names["subject"] for names in context.get_ca_certs()]


def test_with_a_file_of_authorities_the_system_is_not_trusted(monkeypatch, files, tmp_path):
    (tmp_path / "other.pem").write_bytes(trustme.CA().cert_pem.bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "other.pem"))
    assert new_context(ssl_cafile=files.ca).cert_store_stats()["x509_ca"] == 1


@pytest.mark.parametrize("options", [{"ssl_check_hostname": False}, {"ssl_endpoint_identification_algorithm": ""}])
def test_the_check_of_host_names_can_be_switched_off_but_not_that_of_certificates(files, options):
    context = new_context(ssl_cafile=files.ca, **options)
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("options", "versions"),
    [
        ({"ssl_enabled_protocols": ("TLSv1.2",)}, (V12, V12)),
        ({"ssl_enabled_protocols": ("TLSv1.3",)}, (V13, V13)),
        ({"ssl_protocol": "TLSv1.2"}, (V12, V12)),
        ({"ssl_protocol": "TLS"}, (V12, V13)),
        ({"ssl_cipher_suites": ("TLS_AES_256_GCM_SHA384",)}, (V13, V13)),
        ({"ssl_ciphers": "ECDHE+AESGCM"}, (V12, V13)),
    ],
)
def test_versions(files, options, versions):
    context = new_context(ssl_cafile=files.ca, **options)
    assert (context.minimum_version, context.maximum_version) == versions


def test_a_context_of_the_user_is_used_as_it_is(client_context):
    assert new_context(ssl_context=client_context) is client_context


# Own certificates


@pytest.fixture
def connect_with(make_world, connect_tls, authority, files):
    """Return a function that connects with these options to a server that requires a client certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    authority.issue_cert("localhost").configure_cert(context)

    def connect(**options):
        options |= {"bootstrap_servers": "localhost:9093", "security_protocol": "SSL", "ssl_cafile": files.ca}
        options = ClientOptions.from_options(**options)
        return connect_tls(make_world(transport=broker_transport(options)), context)

    return connect


@pytest.mark.parametrize("form", ["files", "encrypted", "one file", "text", "encrypted text", "PKCS12", "plain PKCS12"])
def test_every_form_of_own_certificate_is_accepted(form, connect_with, files, tmp_path):
    chain, key, secret = files.chain_pem, files.key_pem, files.encrypted_pem
    names = {
        "cert": chain,
        "key": key,
        "secret": secret,
        "both": key + chain,
        "p12": files.p12,
        "plain": files.plain_p12,
    }
    for name, data in names.items():
        (tmp_path / name).write_bytes(data)
        names[name] = str(tmp_path / name)
    text = {"ssl_keystore_certificate_chain": chain.decode()}
    options = {
        "files": {"ssl_certfile": names["cert"], "ssl_keyfile": names["key"]},
        "encrypted": {"ssl_certfile": names["cert"], "ssl_keyfile": names["secret"], "ssl_password": "key secret"},
        "one file": {"ssl_keystore_location": names["both"]},
        "text": {"ssl_keystore_key": key.decode(), **text},
        "encrypted text": {"ssl_keystore_key": secret.decode(), "ssl_key_password": "key secret", **text},
        "PKCS12": {"ssl_keystore_location": names["p12"], "ssl_keystore_password": "key secret"},
        "plain PKCS12": {"ssl_keystore_location": names["plain"]},
    }[form]
    stream, server = connect_with(**options)
    assert stream.made
    assert not stream.lost
    assert server.got == b"request"
    assert server.tls.getpeercert()["subjectAltName"] == (("DNS", "client.example"),)


@pytest.mark.parametrize(
    ("password", "text"),
    [
        (None, "the private key is encrypted: set ssl_key_password"),
        ("wrong secret", "ssl_key_password or ssl_password is wrong"),
        ("x" * 5000, "ssl_key_password or ssl_password is wrong"),
    ],
)
def test_a_wrong_password_of_the_private_key(files, password, text):
    options = {"ssl_keystore_certificate_chain": files.chain_pem.decode(), "ssl_key_password": password}
    with pytest.raises(KafkaConfigurationError, match=text) as caught:
        new_context(ssl_cafile=files.ca, ssl_keystore_key=files.encrypted_pem.decode(), **options)
    assert " secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_key_that_belongs_to_another_certificate(files, authority):
    other = authority.issue_cert("other.example").cert_chain_pems[0].bytes().decode()
    options = {"ssl_keystore_certificate_chain": other, "ssl_keystore_key": files.key_pem.decode()}
    with pytest.raises(KafkaConfigurationError, match="the private key does not belong to the certificate"):
        new_context(ssl_cafile=files.ca, **options)


MALFORMED = "-----BEGIN {0}-----\nAAAA\n-----END {0}-----\n"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"ssl_truststore_certificates": MALFORMED.format("CERTIFICATE")}, "has a malformed certificate"),
        ({"ssl_truststore_certificates": MALFORMED.format("CERTIFICATE").replace("AA", "\xe9")}, "has a malformed"),
        (
            {
                "ssl_keystore_certificate_chain": MALFORMED.format("CERTIFICATE"),
                "ssl_keystore_key": MALFORMED.format("PRIVATE KEY"),
            },
            "ssl_keystore_key and ssl_keystore_certificate_chain: malformed certificate or private key",
        ),
        ({"ssl_enabled_protocols": ("TLSv1.3",), "ssl_protocol": "TLSv1.2"}, "excludes all of ssl_enabled_protocols"),
        ({"ssl_ciphers": "NO-SUCH"}, "no such cipher suite"),
    ],
)
def test_options_that_cannot_be_used_are_refused_at_once(options, text):
    with pytest.raises(KafkaConfigurationError, match=text):
        new_context(**options)


def test_the_traceback_of_an_error_has_no_frame_with_a_key_or_password(files):
    """Error reporters show the local variables of all frames."""
    key = files.write("key-alone.pem", files.key_pem)
    store = files.write("me.p12", files.p12)
    for options in ({"ssl_cafile": key}, {"ssl_keystore_location": store, "ssl_keystore_password": "wrong canary"}):
        with pytest.raises(KafkaConfigurationError) as caught:
            new_context(**options)
        error = caught.value
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        assert frames[-1].f_code.co_name == "__init__"
        assert error.__context__ is None


def test_a_file_that_is_replaced_by_a_directory_or_a_pipe(renewable, caplog):
    contexts, folder = renewable
    before = contexts.current()
    path = folder / "key.pem"
    path.unlink()
    path.mkdir()
    open_files = len(os.listdir("/dev/fd"))
    assert contexts.current() is before
    assert "Is a directory" in caplog.text
    assert len(os.listdir("/dev/fd")) == open_files
    path.rmdir()
    os.mkfifo(path)
    assert contexts.current() is before
    assert "no private key" in caplog.text


# Revocation lists


def revocation_list(authority, *revoked):
    root = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    now = datetime.datetime.now(datetime.timezone.utc)
    day = datetime.timedelta(days=1)
    builder = x509.CertificateRevocationListBuilder().issuer_name(root.subject)
    builder = builder.last_update(now - day).next_update(now + day)
    for leaf in revoked:
        serial = x509.load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes()).serial_number
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now - day).build()
        builder = builder.add_revoked_certificate(entry)
    key = load_pem_private_key(authority.private_key_pem.bytes(), None)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


@pytest.mark.parametrize("is_revoked", [False, True])
def test_a_revoked_certificate_is_rejected(is_revoked, make_world, connect_tls, authority, files, tmp_path):
    leaf, other = authority.issue_cert("localhost"), authority.issue_cert("localhost")
    (tmp_path / "crl.pem").write_bytes(revocation_list(authority, leaf if is_revoked else other))
    options = ClientOptions(security_protocol="SSL", ssl_cafile=files.ca, ssl_crlfile=str(tmp_path / "crl.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leaf.configure_cert(context)
    stream, _ = connect_tls(make_world(transport=broker_transport(options)), context)
    if is_revoked:
        assert "certificate revoked (it is in the revocation list of ssl_crlfile)" in str(stream.error)
        assert stream.error.is_certificate_rejected
    else:
        assert not stream.lost


def test_a_malformed_revocation_list(files, tmp_path):
    (tmp_path / "crl.pem").write_text(MALFORMED.format("X509 CRL"))
    with pytest.raises(KafkaConfigurationError, match="ssl_crlfile: .*crl.pem"):
        new_context(ssl_cafile=files.ca, ssl_crlfile=str(tmp_path / "crl.pem"))


# Changed files


@pytest.fixture
def renewable(tmp_path, files):
    """Return the contexts of options whose files a test may change, and the files' folder."""
    shutil.copy(files.ca, tmp_path)
    (tmp_path / "cert.pem").write_bytes(files.chain_pem)
    (tmp_path / "key.pem").write_bytes(files.key_pem)
    names = {option: str(tmp_path / name) for option, name in
             {"ssl_cafile": "ca.pem", "ssl_certfile": "cert.pem", "ssl_keyfile": "key.pem"}.items()}  # fmt: skip
    return TlsContexts(ClientOptions(security_protocol="SSL", **names)), tmp_path


def test_a_context_is_made_only_once_while_no_file_changes(renewable):
    contexts, _ = renewable
    assert contexts.current() is contexts.current()


def test_renewed_files_are_used_for_later_connections(renewable, caplog):
    contexts, folder = renewable
    before = contexts.current()
    with open(folder / "ca.pem", "ab") as file:
        file.write(trustme.CA().cert_pem.bytes())
    with caplog.at_level(logging.INFO):
        after = contexts.current()
    assert after is not before
    assert after.cert_store_stats()["x509_ca"] == 2
    assert contexts.current() is after
    assert "certificate files have changed" in caplog.text


def test_a_file_that_is_replaced_by_one_of_the_same_size_is_noticed(renewable):
    contexts, folder = renewable
    before = contexts.current()
    (folder / "new").write_bytes((folder / "ca.pem").read_bytes())
    os.replace(folder / "new", folder / "ca.pem")
    assert contexts.current() is not before


def test_files_that_do_not_fit_together_yet_leave_the_previous_ones_in_use(renewable, authority, caplog, monkeypatch):
    contexts, folder = renewable
    before = contexts.current()
    leaf = authority.issue_cert("renewed.example")
    (folder / "cert.pem").write_bytes(leaf.cert_chain_pems[0].bytes())
    for _ in range(3):
        assert contexts.current() is before
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "the previous ones stay in use: ssl_certfile and ssl_keyfile: the private key does not" in caplog.text
    (folder / "key.pem").write_bytes(leaf.private_key_pem.bytes())
    assert contexts.current() is not before


def test_a_missing_file_leaves_the_previous_one_in_use(renewable, caplog):
    contexts, folder = renewable
    before = contexts.current()
    (folder / "key.pem").unlink()
    assert contexts.current() is before
    assert "No such file" in caplog.text


def test_unchanged_files_that_failed_are_read_again_after_a_pause(renewable, monkeypatch):
    """The reason may lie outside the files: too many open files, for example."""
    contexts, folder = renewable
    before, times = contexts.current(), [100.0]
    monkeypatch.setattr(tls_context.time, "monotonic", lambda: times[0])
    os.utime(folder / "ca.pem", ns=(1, 1))
    reads = []

    def fail(*args):
        reads.append(args)
        raise KafkaConfigurationError("too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(contexts, "_make", fail)
        assert contexts.current() is contexts.current() is before
        assert len(reads) == 1
        times[0] += tls_context.RETRY_S
        assert contexts.current() is before
        assert len(reads) == 2
    times[0] += tls_context.RETRY_S
    assert contexts.current() is not before


# https


def test_https_trusts_the_system_and_the_options_and_always_checks_names(monkeypatch, files, tmp_path):
    (tmp_path / "system.pem").write_bytes(trustme.CA().cert_pem.bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "system.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    options = ClientOptions(ssl_cafile=files.ca, ssl_check_hostname=False)
    context = TlsContexts(options, for_https=True).current()
    assert context.cert_store_stats()["x509_ca"] == 2
    assert context.check_hostname


def test_https_trusts_the_authorities_of_the_users_context(monkeypatch, client_context, tmp_path):
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    context = TlsContexts(ClientOptions(ssl_context=client_context), for_https=True).current()
    assert context is not client_context
    expected = set(client_context.get_ca_certs(binary_form=True))
    assert set(context.get_ca_certs(binary_form=True)) == expected
