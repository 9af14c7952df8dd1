"""Each enabled mechanism has an exchange."""

import random

from thinconsumer_testing.broker.login.mechanisms import Mechanisms
from thinconsumer_testing.broker.security import ListenerSecurity


def test_configured_users_get_scram_credentials_unless_they_have_stored_ones():
    enabled = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    security = ListenerSecurity("SASL_PLAINTEXT", sasl_enabled_mechanisms=enabled, users={"alice": "a"})
    mechanisms = Mechanisms(security, random.Random(1))
    first = mechanisms.first_credentials({})
    assert list(first) == [("SCRAM-SHA-256", "alice"), ("SCRAM-SHA-512", "alice")]
    stored = {("SCRAM-SHA-256", "alice"): "kept", ("SCRAM-SHA-256", "bob"): "kept"}
    assert {key for key, value in mechanisms.first_credentials(stored).items() if value == "kept"} == set(stored)
    first_messages = {mechanisms.new_exchange(enabled[1], first).evaluate(b"n,,n=alice,r=c", 0.0) for _ in range(2)}
    assert len(first_messages) == 2, "each login has a nonce of its own"
