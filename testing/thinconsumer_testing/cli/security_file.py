"""Read ``broker --security FILE``: the listeners' security settings, as JSON or as properties."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from thinconsumer.cli.parsing import FILE_BYTES_MAX, parse_properties
from thinconsumer.errors import IllegalArgumentError

from ..broker.security import ListenerSecurity

SECURITY_HELP = """\
the file of --security has properties, or a JSON object, with Kafka's names of broker settings:
  security.protocol         PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
  ssl.keystore.location     PEM file with the server's key and certificate chain
  ssl.key.password          password of that key
  ssl.client.auth           none, requested or required; then also
  ssl.truststore.location   PEM file with the authorities that sign client certificates
  sasl.enabled.mechanisms   PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER
  user_NAME                 password of the user NAME (in JSON also "users": {"NAME": "password"})
  connections.max.reauth.ms lifetime of a login (default: not limited)
  sasl.oauthbearer.key      PEM public key or HS256 secret for tokens (default: unsecured tokens)
more settings: help(thinconsumer.broker.ListenerSecurity)
"""


def security_file(path: str) -> ListenerSecurity:
    """Return the settings in a file; this is the ``type`` of the argument ``--security``. Errors quote no secrets."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise argparse.ArgumentTypeError(f"{path} is larger than {FILE_BYTES_MAX} bytes")
        return ListenerSecurity.of(_settings(data.decode()))
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise argparse.ArgumentTypeError(f"{path} is not UTF-8 text") from None
    except (IllegalArgumentError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{path}: {error}") from None


def _settings(text: str) -> Mapping[str, Any]:
    if not text.lstrip().startswith("{"):
        return parse_properties(text)
    try:
        settings: Mapping[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno} is not JSON: {error.msg}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return settings
