"""Tokens for the managed identity of an Azure machine, from its instance metadata service (IMDS).

After librdkafka's ``sasl.oauthbearer.metadata.authentication.type=azure_imds``. The service is at a link-local address
without TLS; only the machine itself reaches it. Nothing secret is sent.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..config import SecurityOptions
from ..config.security_kinds import imds_query
from ..support.timers import Random
from .oidc import FINAL_STATUSES, HttpExchange, TokenSource

IMDS_URL = "http://169.254.169.254/metadata/identity/oauth2/token"


class ManagedIdentity(TokenSource):
    """Requests for the tokens of a managed identity."""

    #: While the service is updated it answers 404 and 410, for up to 70 seconds (Azure's documentation).
    final_statuses = FINAL_STATUSES - {404, 410}
    remedies: Mapping[str, str] = {
        "invalid_request": "check the query in sasl_oauthbearer_config, and assign a managed identity to the machine",
        "invalid_resource": "check resource in sasl_oauthbearer_config",
    }

    def __init__(self, options: SecurityOptions) -> None:
        url = options.sasl_oauthbearer_token_endpoint_url or IMDS_URL
        query = imds_query(options.sasl_oauthbearer_config or "")
        if query:
            url += f"{'&' if '?' in url else '?'}{query}"
        super().__init__(options, url, "sasl_oauthbearer_metadata_authentication_type")

    def exchange(self, wall: float, random: Random) -> HttpExchange:
        # The service refuses requests without this header: those that a server was tricked into forwarding lack it.
        return self._exchange("GET", ("Metadata", "true"))
