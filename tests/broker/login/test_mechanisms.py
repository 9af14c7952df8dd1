"""Each enabled mechanism has an exchange."""

import random

from thinconsumer.broker.image import ClusterImage
from thinconsumer.broker.login.mechanisms import Mechanisms
from thinconsumer.broker.security import ListenerSecurity


def test_plain():
    security = ListenerSecurity("SASL_PLAINTEXT", sasl_enabled_mechanisms=("PLAIN",), users={"alice": "a"})
    exchange = Mechanisms(security, random.Random(1)).new_exchange("PLAIN", ClusterImage("c"))
    exchange.evaluate(b"\0alice\0a", 0.0)
    assert exchange.user == "alice"
