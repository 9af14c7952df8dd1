"""A network client on a cluster in memory: the test is the consumer that steps it."""

import random

import pytest
from stepped_client import Stepped

from thinconsumer.config import ConsumerConfig
from thinconsumer.network.request import ANY_NODE, Request, Target
from thinconsumer.testing import MemoryCluster, MemoryDriver
from thinconsumer.types import Node
from thinconsumer.wire.metadata import MetadataRequest


class ClientBench:
    """A network client on a cluster in memory, stepped as a consumer steps its engine."""

    def __init__(self, nodes=3, bootstrap=None, logins=None, seed=1, **options):
        self.cluster = MemoryCluster(nodes)
        self.network = self.cluster.network
        self.driver = MemoryDriver(self.network)
        servers = bootstrap or self.cluster.bootstrap_servers
        self.config = ConsumerConfig.from_options(bootstrap_servers=servers, **options)
        self.client = Stepped(self.config, random.Random(seed), logins)
        self.answers = []
        self.reasons = []  #: To refresh metadata.
        self.began = self.now

    @property
    def now(self):
        return self.driver.now()

    @property
    def passed(self):
        return self.now - self.began

    def turn(self, deadline):
        self.driver.step(self.client, deadline)
        self.reasons += self.client.step_due(self.now)[0]
        self.answers += self.client.take_answers()

    def run(self, seconds):
        """Step for so many seconds; return the refresh reasons of that time."""
        before, deadline = len(self.reasons), self.now + seconds
        while self.now < deadline:
            self.turn(deadline)
        return self.reasons[before:]

    def send(self, target=ANY_NODE, *, allowance=30.0, api=MetadataRequest, build=None, **more):
        target = target if isinstance(target, Target) else Target(target)
        build = build or (lambda version: api())
        request = Request("test", api, target, build, self.now + allowance, **more)
        self.client.send(request, self.now)
        self.reasons += self.client.step_due(self.now)[0]
        return request

    def answer_to(self, request, within=120.0):
        deadline = self.now + within
        while not (found := [answer for answer in self.answers if answer.request is request]):
            assert self.now < deadline, "no answer"
            self.turn(deadline)
        (answer,) = found
        return answer

    def know(self, *node_ids):
        brokers = [self.cluster.nodes[node_id] for node_id in node_ids or self.cluster.nodes]
        self.client.update_nodes([Node(b.node_id, b.host, b.port) for b in brokers])

    def connect(self, *node_ids):
        """Know all nodes and be ready at these."""
        self.know()
        for node_id in node_ids:
            assert self.answer_to(self.send(node_id)).response
        return self

    def brokers_of(self, api=MetadataRequest):
        return [received.node_id for received in self.cluster.received(api)]


@pytest.fixture
def make_bench():
    return ClientBench


@pytest.fixture
def bench():
    return ClientBench()
