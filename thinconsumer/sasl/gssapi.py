"""GSSAPI (RFC 4752): Kerberos logins, by the package ``gssapi`` (an extra).

The system's Kerberos library reads its own files and queries the KDC itself: :meth:`Gssapi.start` can block until it
has a ticket for the broker. Both sides prove their identity. A security layer is never used, since Kafka has none.
"""

from __future__ import annotations

import hashlib
from typing import Any

from ..config import SecurityOptions
from ..errors import KafkaProtocolError
from .mechanism import Mechanism, authentication_failed, import_extra

_NO_LAYER = 1  #: The bit of the server's offer for "no security layer".
#: The answer: no security layer, therefore a buffer of 0 bytes (RFC 4752), and no authorization identity, so that the
#: server takes the authenticated principal.
_ANSWER = b"\x01\0\0\0"


def answer_offer(offer: bytes) -> bytes:
    """Return the answer to ``offer``, the server's 4 bytes: a bit mask of security layers, and a size in 3 bytes."""
    if len(offer) != 4:
        raise KafkaProtocolError(f"GSSAPI: the server's offer of security layers has {len(offer)} bytes, not 4")
    if not offer[0] & _NO_LAYER:
        raise authentication_failed("GSSAPI: the server requires a security layer, which Kafka does not have")
    return _ANSWER


def memory_cache(principal: str, keytab: str) -> str:
    """Return the name of a ticket cache in this process's memory, so that the tickets of kinit are not replaced.

    Each principal with a keytab has its own cache: Kerberos refuses the cache of another principal.
    """
    digest = hashlib.sha256(repr((principal, keytab)).encode()).hexdigest()
    return f"MEMORY:thinconsumer-{digest[:16]}"


class Gssapi(Mechanism):
    name = "GSSAPI"
    options = (
        "sasl_kerberos_service_name",
        "sasl_kerberos_domain_name",
        "sasl_kerberos_principal",
        "sasl_kerberos_keytab",
    )

    def __init__(self, options: SecurityOptions, host: str, wall: float) -> None:
        """``host`` is the broker's host name as dialled, and ``wall`` the present in seconds since the epoch.

        Raises:
            KafkaConfigurationError: the package ``gssapi`` or the system's Kerberos library is missing.
        """
        self._gssapi = import_extra("gssapi", "sasl_mechanism='GSSAPI'", "gssapi", " and the system's Kerberos library")
        self._target = options.sasl_kerberos_name
        if self._target is None:
            self._target = f"{options.sasl_kerberos_service_name}@{options.sasl_kerberos_domain_name or host}"
        self._principal = options.sasl_kerberos_principal or ""
        self._keytab = options.sasl_kerberos_keytab or ""
        self._wall = wall
        self._context: Any = None
        self._has_answered = False

    def __repr__(self) -> str:
        return f"<Gssapi {self._target} as {self._principal or 'the default principal'}>"

    def start(self) -> bytes:
        """Return the first token, after fetching a ticket from the KDC unless there is one."""
        self._context = self._call(self._new_context)
        return self._step(None)

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the next token; once both sides are authenticated, the answer to the server's offer; at last, None."""
        if not self._context.complete:
            return self._step(challenge)
        if not self._has_answered:
            offer = self._call(lambda: self._context.unwrap(challenge).message)
            answer: bytes = self._call(lambda: self._context.wrap(answer_offer(offer), False).message)
            self._has_answered = True
            return answer
        if challenge:
            raise KafkaProtocolError("GSSAPI: the server sent a message after the end of the login")
        return None

    def _new_context(self) -> Any:
        gssapi = self._gssapi
        target = self._target
        if isinstance(target, str):
            target = gssapi.Name(target, name_type=gssapi.NameType.hostbased_service)
        flag = gssapi.RequirementFlag
        return gssapi.SecurityContext(
            name=target,
            creds=self._new_credentials(),
            mech=gssapi.MechType.kerberos,
            usage="initiate",
            # Integrity is needed to wrap the answer, mutual authentication to verify the broker (RFC 4752, 3.1).
            flags=[flag.mutual_authentication, flag.integrity, flag.out_of_sequence_detection],
        )

    def _new_credentials(self) -> Any:
        """Return the credentials of the principal or keytab in the options.

        None if there is neither: Kerberos then uses the ticket of ``kinit`` or the default client keytab.
        """
        gssapi = self._gssapi
        if not self._principal and not self._keytab:
            return None
        arguments: dict[str, Any] = {"usage": "initiate"}
        if self._principal:
            arguments["name"] = gssapi.Name(self._principal, name_type=gssapi.NameType.kerberos_principal)
        if self._keytab:
            arguments["store"] = {"client_keytab": self._keytab, "ccache": memory_cache(self._principal, self._keytab)}
        return gssapi.Credentials(**arguments)

    def _step(self, challenge: bytes | None) -> bytes:
        token: bytes | None = self._call(lambda: self._context.step(challenge))
        if self._context.complete:
            mutual = self._gssapi.RequirementFlag.mutual_authentication
            if mutual not in self._context.actual_flags:
                raise authentication_failed("GSSAPI: the broker has not proved its identity (mutual authentication)")
            lifetime = self._context.lifetime
            if lifetime is not None:
                self.credentials_expire_at = self._wall + lifetime
        return token or b""

    def _call(self, function: Any) -> Any:
        try:
            return function()
        except (self._gssapi.exceptions.GSSError, NotImplementedError, ValueError) as error:
            # NotImplementedError: the system's library cannot read a given keytab (Heimdal without credential stores).
            # ValueError: the principal is not UTF-8. Either would otherwise end the client's step.
            raise authentication_failed(
                f"{self!r} failed: {self.shown(str(error))} (check the broker's name in its principal, the ticket of "
                "kinit or the keytab, and the clocks of client, broker and KDC)"
            ) from error
