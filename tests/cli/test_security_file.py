"""``broker --security FILE``: properties, JSON, and errors without secrets."""

import argparse
import json

import pytest

from thinconsumer_testing.cli.security_file import FILE_BYTES_MAX, SECURITY_HELP, security_file

SETTINGS = {"security.protocol": "SASL_PLAINTEXT", "sasl.enabled.mechanisms": "PLAIN"}


@pytest.mark.parametrize(
    "text",
    [
        "security.protocol=SASL_PLAINTEXT\nsasl.enabled.mechanisms=PLAIN\n# users\nuser_alice=a\\u0062c",
        json.dumps({**SETTINGS, "user_alice": "abc"}),
        json.dumps({**SETTINGS, "users": {"alice": "abc"}}),
    ],
)
def test_properties_and_json(tmp_path, text):
    path = tmp_path / "security"
    path.write_text(text)
    security = security_file(str(path))
    assert security.sasl_enabled_mechanisms == ("PLAIN",)
    assert security.users == {"alice": "abc"}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "cannot read"),
        (b"\xff", "not UTF-8"),
        (b"#" * (FILE_BYTES_MAX + 1), "larger than"),
        (b'{"user_alice": "canary"', "line 1 is not JSON"),
        (b'{"users": ' + b"[" * 100_000, "nested too deeply|not JSON"),
        (b"user_alice=\\u00-canary", "line 1"),
        (b"user.alice=canary", "unknown security setting 'user.alice'"),
        (b"security.protocol=SASL_SSL\nsasl.enabled.mechanisms=PLAIN\nuser_a=canary", "needs the server's key"),
    ],
)
def test_errors(tmp_path, data, words):
    path = tmp_path / "security"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(argparse.ArgumentTypeError, match=words) as caught:
        security_file(str(path))
    assert "canary" not in str(caught.value).replace(str(path), "")


def test_help_names_settings_that_exist():
    from dataclasses import fields

    from thinconsumer.broker import ListenerSecurity

    names = {line.split()[0] for line in SECURITY_HELP.splitlines() if line.startswith("  ")} - {"user_NAME"}
    assert {name.replace(".", "_") for name in names} <= {field.name for field in fields(ListenerSecurity)}
