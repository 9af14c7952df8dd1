"""A group's member that reaches real brokers only through a proxy."""

import pytest
from proving import filling
from proving.tunnels import ProxyServer

from thinconsumer import Consumer


@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "http"])
def test_a_member_reads_and_commits_through_a_proxy(kafka, new_topic, scheme):
    topic = new_topic(kafka)
    producer = filling.producer(kafka.bootstrap)
    producer.produce(topic, b"1", partition=0)
    assert producer.flush(20) == 0
    with ProxyServer(login=(b"us3r", b"p@ss")) as proxy:
        options = {
            "bootstrap_servers": kafka.bootstrap,
            "proxy_url": f"{scheme}://us3r:p%40ss@127.0.0.1:{proxy.port}",
            "group_id": topic,
            "auto_offset_reset": "earliest",
        }
        with Consumer(topic, **options) as consumer:
            (records,) = consumer.poll(20_000).values()
            assert [record.value for record in records] == [b"1"]
            consumer.commit()
        with Consumer(topic, **options) as consumer:
            assert consumer.committed((topic, 0)) == 1
        assert len(proxy.asked) >= 4
