"""The hash of a group's topics changes with what decides the assignment, and with nothing else."""

from __future__ import annotations

from thinconsumer_testing.broker.group.consumer.topic_metadata import metadata_hash, partition_counts, topic_ids
from thinconsumer_testing.broker.image import ClusterImage, PartitionImage, TopicImage
from thinconsumer_testing.broker.ordered.topic import OrderedTopicCounts


def image_of(**topics: tuple[bytes, int]) -> ClusterImage:
    image = ClusterImage("c")
    for name, (topic_id, count) in topics.items():
        put(image, name, topic_id, count)
    return image


def put(
    image: ClusterImage,
    name: str,
    topic_id: bytes,
    count: int,
    leader: int = 1,
    ordered: OrderedTopicCounts | None = None,
) -> None:
    rows = tuple(PartitionImage(name, topic_id, n, leader, 0, (1,), (1,)) for n in range(count))
    image.put_topic(TopicImage(name, topic_id, rows, {}, ordered=ordered))


A, B, C = b"a" * 16, b"b" * 16, b"c" * 16


def test_the_hash_depends_on_names_ids_and_partition_counts() -> None:
    hashes = {
        metadata_hash(["t", "u"], image_of(t=(A, 1))),
        metadata_hash(["t", "u"], image_of(t=(B, 1))),
        metadata_hash(["t", "u"], image_of(t=(A, 2))),
        metadata_hash(["t", "u"], image_of(u=(A, 1))),
        metadata_hash(["t", "u"], image_of(t=(A, 1), u=(B, 1))),
    }
    assert len(hashes) == 5
    assert all(-(2**63) <= one < 2**63 for one in hashes)


def test_the_hash_ignores_leaders_other_topics_and_order() -> None:
    image = image_of(t=(A, 1), u=(B, 3))
    before = metadata_hash(["t", "u"], image)
    put(image, "t", A, 1, leader=2)
    put(image, "v", b"v" * 16, 1)
    assert metadata_hash(["u", "t", "missing"], image) == before


def test_the_hash_changes_when_partitions_are_marked_for_deletion() -> None:
    """The target assignment has them in a list of their own."""
    image, hashes = image_of(), []
    for ordered in (None, OrderedTopicCounts(1, 3), OrderedTopicCounts(1, 2)):
        put(image, "t", A, 3, ordered=ordered)
        hashes.append(metadata_hash(["t"], image))
    assert hashes[0] == hashes[1] != hashes[2]


def test_without_topics_the_hash_is_0() -> None:
    assert metadata_hash(["missing"], image_of(t=(A, 1))) == 0


def test_ids_and_counts_of_topics_that_exist() -> None:
    image = image_of(t=(A, 1), u=(B, 3))
    assert topic_ids(["t", "missing"], image) == {A}
    put(image, "v", C, 5, ordered=OrderedTopicCounts(1, 3))
    assert partition_counts([A, B, C], image) == ({A: 1, B: 3, C: 3}, {A: 0, B: 0, C: 2})
    assert [*partition_counts([B, A], image).undeleted] == sorted([A, B])  # sets differ between processes


def test_the_image_counts_its_changes_and_remembers_the_last_new_topic() -> None:
    image = image_of(t=(A, 1))
    assert (image.version, image.created_version) == (1, 1)
    put(image, "t", A, 2)
    assert (image.version, image.created_version) == (2, 1)
    put(image, "t", B, 2)
    assert (image.version, image.created_version) == (3, 3)
    image.remove_topic("t")
    image.remove_topic("t")
    assert (image.version, image.created_version) == (4, 3)
