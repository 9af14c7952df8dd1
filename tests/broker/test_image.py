"""Metadata images: topics by name and id, partitions by number."""

import pytest

from thinconsumer_testing.broker.image import ClusterImage, PartitionImage, TopicImage

A, B = b"a" * 16, b"b" * 16


def topic(name, topic_id, partitions=1):
    rows = tuple(PartitionImage(name, topic_id, n, 1, 0, (1,), (1,)) for n in range(partitions))
    return TopicImage(name, topic_id, rows, {})


@pytest.fixture
def image():
    image = ClusterImage("c")
    image.put_topic(topic("t", A, 2))
    return image


def test_topic_id_takes_precedence_over_name(image):
    assert image.topic("t").topic_id == A
    assert image.topic(None, A).name == "t"
    assert image.topic("t", B) is None
    assert image.topic(None) is None


def test_partition_lookup_checks_the_number(image):
    assert image.partition("t", 1).tp == ("t", 1)
    assert image.partition("t", 2) is None
    assert image.partition("t", -1) is None
    assert image.partition("u", 0) is None


def test_recreated_topic_has_only_its_new_id(image):
    image.put_topic(topic("t", B))
    assert image.topic(None, A) is None
    assert image.topic(None, B).topic_id == B


def test_removed_topic_is_unknown_by_name_and_id(image):
    image.remove_topic("t")
    image.remove_topic("t")
    assert image.topic("t") is None
    assert image.topic(None, A) is None
