"""What the end of a connection is explained with."""

import pytest

from thinconsumer.connection.error_texts import likely_cause, setup_timeout
from thinconsumer.connection.states import ConnectionState


@pytest.mark.parametrize(
    ("state", "protocol", "unanswered", "words"),
    [
        (ConnectionState.NEGOTIATING, "PLAINTEXT", None, "before it answered ApiVersions"),
        (ConnectionState.AUTHENTICATING, "SASL_SSL", None, "check security_protocol, which is 'SASL_SSL'"),
        (ConnectionState.REAUTHENTICATING, "SASL_SSL", "Fetch", "while it logged in again"),
        (ConnectionState.READY, "PLAINTEXT", "Fetch", "without an answer to Fetch: the listener may require a login"),
        (ConnectionState.READY, "SASL_SSL", "Fetch", "without an answer to Fetch"),
    ],
)
def test_the_cause_follows_from_the_state(state, protocol, unanswered, words):
    cause = likely_cause(state, protocol, unanswered)
    assert words in cause
    assert ("require a login" in cause) == ("require a login" in words)


def test_the_end_of_a_connection_that_worked_has_no_likely_cause():
    assert likely_cause(ConnectionState.READY, "PLAINTEXT", None) == ""


def test_a_timeout_names_the_step_of_the_setup():
    steps = [ConnectionState.CONNECTING, ConnectionState.NEGOTIATING, ConnectionState.AUTHENTICATING]
    texts = [setup_timeout(state, 10.0, "PLAINTEXT") for state in steps]
    assert all("within 10.0 s" in text for text in texts)
    assert "no connection" in texts[0] and "no answer to ApiVersions" in texts[1] and "the login" in texts[2]
