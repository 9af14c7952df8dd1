"""Metadata of topics that are known by id only."""

import random

from thinconsumer.config import ConsumerConfig
from thinconsumer.network.metadata import Metadata
from thinconsumer.network.request import Answer
from thinconsumer.support.agenda import Agenda
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.metadata import MetadataResponse, MetadataResponseTopic

ID_A = b"a" * 16


def test_topics_are_looked_up_by_id_and_known_by_name_afterwards():
    """A consumer group's coordinator names topics by id (KIP-848). Ids and names do not share a request (KIP-516)."""
    metadata = Metadata(ConsumerConfig(), random.Random(1), Agenda())
    call = metadata.inquire((), "looking up topic ids", ids=[ID_A, b"z" * 16])
    [request] = metadata.step(1.0)
    assert request.min_version == 12
    assert [(t.name, t.topic_id) for t in request.build(12).topics] == [(None, ID_A), (None, b"z" * 16)]
    unknown = MetadataResponseTopic(name=None, topic_id=b"z" * 16, error_code=Code.UNKNOWN_TOPIC_ID)
    found = MetadataResponseTopic(name="t", topic_id=ID_A)
    metadata.handle(Answer(request, 1, 12, MetadataResponse(topics=[found, unknown])), 1.0)
    assert set(call.result()) == {"t"} and metadata.topic_id("t") == ID_A
