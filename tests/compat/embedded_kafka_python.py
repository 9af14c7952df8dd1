"""A pytest plugin for kafka-python's own tests: its KafkaConsumer is this package's, and the brokers are embedded ones.

Loaded with ``-p`` in a process of its own, before kafka-python's tests. Its module of fixtures, which starts Kafka, is
replaced; its ``conftest.py`` and its producer and admin clients are used as they are. Only tests of consumers are run.
"""

import inspect
import os
import sys
from types import ModuleType

import kafka

from thinconsumer.compat.kafka import KafkaConsumer
from thinconsumer_testing.broker.process import BrokerProcess

os.environ["KAFKA_VERSION"] = "4.2"
kafka.KafkaConsumer = KafkaConsumer
FIXTURES = {"consumer", "consumer_group", "kafka_consumer_factory"}
USER, PASSWORD = "alice", "alice-secret"


class EmbeddedFixture:
    """What kafka-python's conftest.py and tests use of its class KafkaFixture."""

    zookeeper = None
    shared = None  #: The broker without a login, for all modules of tests: starting one takes longer than most tests.

    def __init__(self, partitions=4, transport="PLAINTEXT", sasl_mechanism=None):
        self.partitions = partitions
        self.options = {"security_protocol": transport}
        security = None
        if sasl_mechanism is not None:
            login = {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
            self.options.update(sasl_mechanism=sasl_mechanism, **login)
            security = {"security_protocol": transport, "sasl_enabled_mechanisms": (sasl_mechanism,)}
            security["users"] = {USER: PASSWORD}
        settings = {"num.partitions": partitions, "group.initial.rebalance.delay.ms": 0}
        self.process = BrokerProcess(config=settings, security=security)
        self.child = self

    @classmethod
    def instance(cls, node_id, **params):
        if "sasl_mechanism" in params:
            return cls(**params)
        cls.shared = cls.shared or cls(**params)
        return cls.shared

    def close(self):
        if self is not self.shared:
            self.process.close()

    def dump_logs(self):
        """Do nothing: the embedded broker writes no log."""

    def _enrich_client_params(self, params, **defaults):
        return {**defaults, "bootstrap_servers": self.process.bootstrap_servers, **self.options, **params}


def create_topics(broker, names, num_partitions=None, replication_factor=None):
    for name in names:
        broker.process.create_topic(name, num_partitions or broker.partitions)


def client_params(broker, client_id="client", **overrides):
    return broker._enrich_client_params(overrides, client_id=client_id)


fixtures = ModuleType("test.integration.fixtures")
fixtures.KafkaFixture = fixtures.ZookeeperFixture = EmbeddedFixture
fixtures.create_topics, fixtures.client_params = create_topics, client_params
sys.modules[fixtures.__name__] = fixtures


def pytest_sessionfinish():
    if EmbeddedFixture.shared is not None:
        EmbeddedFixture.shared.process.close()


def pytest_collection_modifyitems(config, items):
    """Leave out tests of producers and admin clients that use no consumer."""
    chosen = [item for item in items if uses_a_consumer(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


def uses_a_consumer(item):
    return bool(FIXTURES & set(item.fixturenames)) or "KafkaConsumer" in inspect.getsource(item.function)
