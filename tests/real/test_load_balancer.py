"""A consumer behind a proxy that forgets idle connections without closing them, as load balancers do."""

import time

from proving import filling
from proving.proxy import Proxy

from thinconsumer import Consumer, TopicPartition
from thinconsumer.wire.header import decode_response_header
from thinconsumer.wire.metadata import MetadataRequest, MetadataResponse
from thinconsumer_testing.broker.wire.requests import encode_response


def test_a_program_that_pauses_sends_nothing_into_a_forgotten_connection(kafka, new_topic, record_property):
    """The answer that waits in the socket does not make the connection look used: a request would cost its timeout."""
    topic = new_topic(kafka)
    producer = filling.producer(kafka.bootstrap)

    def write(value):
        producer.produce(topic, value, partition=0)
        assert producer.flush(20) == 0

    timeouts = {"request_timeout_ms": 3000, "connections_max_idle_ms": 3500, "fetch_max_wait_ms": 500}
    _, _, port = kafka.bootstrap.rpartition(":")
    with (
        Proxy(("127.0.0.1", int(port)), advertise) as proxy,
        Consumer(
            bootstrap_servers=f"balanced:{port}", resolver=proxy.resolve, auto_offset_reset="earliest", **timeouts
        ) as consumer,
    ):
        consumer.assign([TopicPartition(topic, 0)])
        write(b"0")
        assert values(consumer, 1) == [b"0"]
        consumer.poll(200)  # the next Fetch waits at the broker
        write(b"1")  # answers that Fetch, and the program does not read the answer
        time.sleep(1.0)
        proxy.forget_all()
        time.sleep(3.0)
        write(b"2")
        began, accepted = time.monotonic(), proxy.accepted
        assert values(consumer, 2) == [b"1", b"2"]
        seconds = time.monotonic() - began
        record_property("time to both records", f"{seconds:.2f} s")
        assert seconds < 2.0
        assert proxy.accepted > accepted


def advertise(api, version, correlation_id, frame):
    """Let the broker advertise a name, which the consumer resolves to the proxy."""
    if api != MetadataRequest.API_KEY:
        return frame
    _, start = decode_response_header(frame, MetadataRequest, version)
    response = MetadataResponse.decode(frame, version, start)
    for broker in response.brokers:
        broker.host = "balanced"
    return encode_response(response, version, correlation_id)


def values(consumer, count):
    found, until = [], time.monotonic() + 15
    while len(found) < count and time.monotonic() < until:
        found += [record.value for records in consumer.poll(500).values() for record in records]
    return found
