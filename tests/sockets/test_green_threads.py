"""Consumers under eventlet's and gevent's monkey patches, which replace classes of the standard library.

Each runs in a process of its own, since a monkey patch cannot be undone.
"""

import importlib.util
import subprocess
import sys
import time

import pytest
import trustme

from thinconsumer.broker import EmbeddedBroker

PROGRAM = """
import ssl
import sys

library, when, bootstrap, authority = sys.argv[1:]

def patch():
    if library == "eventlet":
        import eventlet
        eventlet.monkey_patch()
    else:
        import gevent.monkey
        gevent.monkey.patch_all()

if when == "first":
    patch()
import threading
import time
import thinconsumer.sockets.socket_selector
from thinconsumer import Consumer, KafkaConfigurationError, TopicPartition

options = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest"}
if authority:
    options |= {"security_protocol": "SSL", "ssl_context": ssl.create_default_context(cafile=authority)}
if when == "late":
    patch()
    try:
        Consumer(security_protocol="SSL", ssl_context=ssl.SSLContext.__base__(ssl.PROTOCOL_TLS_CLIENT), **options)
    except KafkaConfigurationError as error:
        assert "make it afterwards" in str(error), error

turns = 0

def take_turns():
    global turns
    while True:
        time.sleep(0.01)
        turns += 1

consumer = Consumer(**options)
consumer.assign([TopicPartition("t", 0)])
(records,) = consumer.poll(15_000).values()
threading.Thread(target=take_turns, daemon=True).start()
assert consumer.poll(300) == {}
assert turns >= 5, f"{turns} turns of the other thread while a poll has waited"
consumer.wakeup()
consumer.close()
print([record.value for record in records])
"""


@pytest.mark.parametrize(("when", "uses_tls"), [("first", True), ("late", False)], ids=["first-tls", "late-plaintext"])
@pytest.mark.parametrize("library", ["eventlet", "gevent"])
def test_other_green_threads_run_while_a_poll_waits(library, when, uses_tls, tmp_path):
    """Patched before or after the import of thinconsumer."""
    if importlib.util.find_spec(library) is None:  # An import would make each fork that follows warn.
        pytest.skip(f"{library} is not installed")
    security, authority = None, ""
    if uses_tls:
        issuer, authority = trustme.CA(), str(tmp_path / "ca.pem")
        issuer.cert_pem.write_to_path(authority)
        issuer.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
        security = {"security_protocol": "SSL", "ssl_keystore_location": str(tmp_path / "server.pem")}
    with EmbeddedBroker(topics={"t": 1}, security=security) as broker:
        broker.produce("t", [b"value"])
        program = [sys.executable, "-W", "ignore", "-c", PROGRAM, library, when, broker.bootstrap_servers, authority]
        with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
            until = time.monotonic() + 30
            while run.poll() is None:
                broker.step(0.02)
                if time.monotonic() > until:
                    run.kill()
            printed, errors = run.communicate()
    assert (run.returncode, printed) == (0, "[b'value']\n"), errors
