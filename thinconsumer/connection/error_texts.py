"""Texts for the errors of a connection: the probable reason why it was closed, and what its setup was waiting for."""

from .negotiate import wrong_port
from .states import ConnectionState


def likely_cause(ended_in: ConnectionState, protocol: str, unanswered: str | None) -> str:
    """Return why the peer has probably closed the connection, to append to an error's text; empty if unknown.

    Args:
        ended_in: The state in which the connection was closed.
        protocol: The option ``security_protocol``.
        unanswered: The API of the oldest request in flight, if the connection was ready and has answered no request.
    """
    if ended_in is ConnectionState.NEGOTIATING:
        return f" before it answered ApiVersions: {wrong_port(protocol)}"
    if ended_in is ConnectionState.AUTHENTICATING:
        return f" during the login: check security_protocol, which is {protocol!r}"
    if ended_in is ConnectionState.REAUTHENTICATING:
        return " while it logged in again"
    if ended_in is ConnectionState.READY and unanswered is not None:
        text = f" after ApiVersions, without an answer to {unanswered}"
        if protocol.startswith("SASL"):
            return text
        return f"{text}: the listener may require a login (security_protocol='SASL_PLAINTEXT' or 'SASL_SSL')"
    return ""


def setup_timeout(state: ConnectionState, seconds: float, protocol: str) -> str:
    """Return the text of the error for a step of the setup that has not ended after ``seconds``."""
    within = f"within {seconds:.1f} s"
    if state is ConnectionState.CONNECTING:
        return f"timed out: no connection {within}"
    if state is ConnectionState.AUTHENTICATING:
        return f"timed out: the login did not end {within}"
    return (
        f"timed out: connected, but no answer to ApiVersions {within}: the broker is overloaded or stopped, "
        f"or {wrong_port(protocol)}"
    )
