"""Scripts of what administrators ask: versions, metadata, topics, settings."""

from typing import Any

from thinconsumer.wire import ZERO_UUID
from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.init_producer_id import InitProducerIdRequest
from thinconsumer.wire.list_offsets import ListOffsetsRequest
from thinconsumer.wire.metadata import MetadataRequest, MetadataRequestTopic
from thinconsumer.wire.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from thinconsumer_testing.broker.apis import APIS
from thinconsumer_testing.broker.wire.administration import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)

from .scripts import batch, fill, script
from .talk import Line, World

#: Settings that the properties of real clusters set to other values.
TOLD_OTHERWISE = ("retention.ms", "file.delete.delay.ms")
STATIC = 4
#: Features that the embedded broker has, too.
FEATURES = ("group.version", "metadata.version", "transaction.version")


@script
def api_versions(world: World) -> None:
    """The versions of each API that both have, the features, and clients without a proper name."""
    line = world.connect()
    version = world.version(ApiVersionsRequest)
    for name, software in (("some-client", "1.0"), ("", "1.0"), ("x", ""), ("two words", "1"), ("-x", "1")):
        request = ApiVersionsRequest(client_software_name=name, client_software_version=software)
        answer = line.send(request, version).quiet_answer()
        answer.api_keys = [one for one in answer.api_keys if one.api_key in APIS]
        answer.extension_api_keys = []  # Only the embedded broker has any.
        answer.supported_features = [one for one in answer.supported_features if one.name in FEATURES]
        answer.finalized_features = [one for one in answer.finalized_features if one.name in FEATURES]
        answer.finalized_features_epoch = min(answer.finalized_features_epoch, 0)
        world.note(f"ApiVersions {version} of {name!r} {software!r}", world.normal.of(answer))


@script
def versions_that_are_not_spoken(world: World) -> None:
    """ApiVersions is answered in version 0, anything else closes the connection."""
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    world.connect().send(request, 5, about="too new").answered_in(0).answer()
    for message, version in (
        (ListOffsetsRequest(replica_id=-1), 0),
        (InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 6),
    ):
        line = world.connect()
        line.ask(message, version)
        line.ask(message, version, about="and once more")


def metadata(*names: str | None, ids: tuple[bytes, ...] = (), create: bool = False, **options: Any) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    topics += [MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in ids]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create, **options)


@script
def metadata_of_topics(world: World) -> None:
    """Known and unknown topics, names that cannot be, none at all."""
    topic, other = world.topic(partitions=3), world.topic("other")
    line = world.connect()
    version = world.version(MetadataRequest)
    create = version < 4  # which cannot forbid it
    line.ask(metadata(topic, create=create))
    line.ask(metadata(topic, other, world.name("none"), create=create))
    line.ask(metadata(topic, topic, create=create), about="twice")
    line.ask(metadata("", "a/b", ".", "..", "x" * 250, create=create), about="bad names")
    if version > 0:
        line.ask(metadata(create=create), about="none")


@script
def metadata_by_id(world: World) -> None:
    """Ids, unknown ones, names beside them, and neither."""
    topic = world.topic()
    topic_id = world.topic_id(topic)
    line = world.connect()
    version = world.version(MetadataRequest, at_least=10)
    both = MetadataRequest(topics=[MetadataRequestTopic(name=topic, topic_id=topic_id)])
    line.ask(metadata(ids=(topic_id,)), version)
    line.ask(metadata(ids=(topic_id, b"?" * 16)), version)
    line.ask(metadata(topic, ids=(b"?" * 16,)), version)
    line.ask(metadata(ids=(topic_id, topic_id)), version)
    line.ask(both, version, about="name and id")
    line.ask(metadata(None), version, about="neither")


@script
def metadata_of_everything(world: World) -> None:
    """All topics, of which only this script's are compared."""
    world.topic("a", 2), world.topic("b")
    version = world.version(MetadataRequest)
    request = MetadataRequest(topics=None if version else [])
    answer = world.connect().send(request, version).quiet_answer()
    answer.topics = [topic for topic in answer.topics if topic.name.startswith(world.prefix)]
    world.note(f"all topics {version}", world.normal.of(answer))


@script
def metadata_with_operations(world: World) -> None:
    """Metadata lists the operations that the client may perform on topics and on the cluster."""
    topic = world.topic()
    line = world.connect()
    for version in (8, 9, 10, 11, 13):
        request = metadata(topic, world.name("none"), include_topic_authorized_operations=True)
        request.include_cluster_authorized_operations = version <= 10
        line.ask(request, version)


@script
def describe_cluster(world: World) -> None:
    """Brokers, operations, and endpoints that this is not."""
    line = world.connect()
    version = world.version(DescribeClusterRequest)
    line.ask(DescribeClusterRequest())
    line.ask(DescribeClusterRequest(include_cluster_authorized_operations=True))
    if version > 0:
        line.ask(DescribeClusterRequest(endpoint_type=2))
        line.ask(DescribeClusterRequest(endpoint_type=3))
    if version > 1:
        line.ask(DescribeClusterRequest(include_fenced_brokers=True))


# -- topics


def wanted(
    name: str, partitions: int = 1, replicas: int = 1, assignment: Any = (), configs: dict[str, Any] | None = None
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[CreatableReplicaAssignment(partition_index=n, broker_ids=ids) for n, ids in assignment],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )


def create(world: World, line: Line, *topics: CreatableTopic, validate_only: bool = False) -> None:
    """Create topics, and note the answer without what the real cluster was told otherwise."""
    version = world.version(CreateTopicsRequest)
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    answer = line.send(request, version).quiet_answer()
    for topic in answer.topics:
        topic.configs = [c for c in topic.configs or () if c.name not in TOLD_OTHERWISE or c.config_source == 1]
    names = ", ".join(topic.name.replace(world.prefix, "~")[:20] for topic in topics)
    world.note(f"CreateTopics {version} {names}", world.normal.of(answer))


@script
def create_topics(world: World) -> None:
    """Numbers, names and collisions."""
    line = world.connect()
    a, b = world.name("a"), world.name("b")
    create(world, line, wanted(a))
    create(world, line, wanted(a))
    create(world, line, wanted(b, -1, -1))
    create(world, line, wanted(world.name("v"), 3), validate_only=True)
    create(world, line, wanted(world.name("v"), 2))
    for partitions, replicas in ((0, 1), (-2, 1), (1, 0), (1, -2), (1, 2), (0, 0), (1, 300)):
        create(world, line, wanted(world.name("n"), partitions, replicas))
    create(world, line, *(wanted(name) for name in ("", ".", "..", "a/b", "x" * 250, "ä")))
    create(world, line, wanted(world.name("twice")), wanted(world.name("twice"), 2), wanted(world.name("once")))
    create(world, line, wanted("__cluster_metadata"))
    create(world, line, wanted(world.name("c_1")))
    create(world, line, wanted(world.name("c.1")))
    create(world, line, wanted(world.name("c_1"), 0))
    create(world, line, wanted(world.name("big"), 20_000), wanted(world.name("small")))
    create(world, line)


@script
def create_topics_by_assignment(world: World) -> None:
    """Assignments, good ones and all the bad ones."""
    line = world.connect()
    for number, (partitions, replicas, assignment) in enumerate(
        [
            (-1, -1, [(0, [1])]),
            (-1, -1, [(1, [1]), (0, [1])]),
            (1, -1, [(0, [1])]),
            (-1, 1, [(0, [1])]),
            (-1, -1, [(1, [1])]),
            (-1, -1, [(0, [1]), (0, [1])]),
            (-1, -1, [(0, [1, 1])]),
            (-1, -1, [(0, [2])]),
            (-1, -1, [(0, [])]),
            (-1, -1, [(0, [1]), (1, [1, 2])]),
        ]
    ):
        create(world, line, wanted(world.name(f"m{number}"), partitions, replicas, assignment))


CONFIGS: tuple[dict[str, str | None], ...] = (
    {"cleanup.policy": "compact", "retention.ms": "5000"},
    {"cleanup.policy": "compact,delete"},
    {"cleanup.policy": "compact , delete"},
    {"cleanup.policy": ""},
    {"cleanup.policy": "delete,delete"},
    {"cleanup.policy": "shred"},
    {"nonsense": "1"},
    {"message.format.version": "3.0"},
    {"retention.ms": "x"},
    {"retention.ms": "-2"},
    {"retention.ms": "-1"},
    {"retention.ms": ""},
    {"retention.ms": None},
    {"retention.ms": "1e3"},
    {"retention.ms": "99999999999999999999"},
    {"retention.bytes": " 77 "},
    {"max.message.bytes": "2147483648"},
    {"max.message.bytes": "-1"},
    {"min.insync.replicas": "0"},
    {"min.insync.replicas": "2"},
    {"segment.bytes": "1048575"},
    {"segment.bytes": "1048576"},
    {"segment.ms": "0"},
    {"message.timestamp.type": "LogAppendTime"},
    {"message.timestamp.type": "Sometime"},
    {"compression.type": "zstd"},
    {"compression.type": "brotli"},
    {"compression.gzip.level": "0"},
    {"compression.lz4.level": "18"},
    {"unclean.leader.election.enable": "TRUE"},
    {"unclean.leader.election.enable": "1"},
    {"min.cleanable.dirty.ratio": "0.7"},
    {"min.cleanable.dirty.ratio": "7"},
    {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
    {"remote.storage.enable": "true"},
    {"follower.replication.throttled.replicas": "*"},
    {"follower.replication.throttled.replicas": "0:1,1:2"},
    {"follower.replication.throttled.replicas": "x"},
    {"retention.ms": "5", "segment.ms": "0"},
)


@script
def create_topics_with_settings(world: World) -> None:
    """Settings that can be, and those that cannot."""
    line = world.connect()
    for number, configs in enumerate(CONFIGS):
        create(world, line, wanted(world.name(f"s{number}"), configs=configs), validate_only=True)
    create(world, line, wanted(world.name("exists"), configs={"cleanup.policy": "compact"}))
    create(world, line, wanted(world.name("exists"), configs={"nonsense": "1"}))
    create(world, line, wanted(world.name("both"), 0, 0, configs={"nonsense": "1"}))


def grow(*topics: tuple[str, int, list[list[int]] | None], validate_only: bool = False) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=None if ids is None else [CreatePartitionsAssignment(broker_ids=one) for one in ids],
            )
            for name, count, ids in topics
        ],
        timeout_ms=5000,
        validate_only=validate_only,
    )


@script
def create_partitions(world: World) -> None:
    """Growing, not growing, and assignments."""
    topic = world.topic(partitions=2)
    line = world.connect()
    line.ask(grow((topic, 2, None)))
    line.ask(grow((topic, 1, None)))
    line.ask(grow((topic, 0, None)))
    line.ask(grow((topic, -1, None)))
    line.ask(grow((world.name("none"), 3, None)))
    line.ask(grow((topic, 3, None), validate_only=True))
    line.ask(grow((topic, 3, None)))
    line.ask(grow((topic, 4, [[1]])))
    for assignment in ([], [[1], [1]], [[2]], [[]], [[1, 1]]):
        line.ask(grow((topic, 5, assignment)), about=str(assignment))
    line.ask(grow((topic, 5, None), (topic, 6, None)), about="twice")
    line.ask(grow())
    line.ask(metadata(topic), 12)


@script
def delete_topics(world: World) -> None:
    """By name, twice, unknown; gone afterwards, and back as another."""
    names = [world.topic(stem) for stem in "abcd"]
    line = world.connect()
    version = world.version(DeleteTopicsRequest)

    def delete(*asked: str) -> None:
        states = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in asked]
        request = DeleteTopicsRequest(timeout_ms=5000)
        if version < 6:
            request.topic_names = list(asked)
        else:
            request.topics = states
        line.ask(request, version)

    delete(names[0])
    delete(names[0])
    delete(names[1], world.name("none"), "", "a/b")
    delete(names[2], names[2])
    delete()
    world.wait(0.5)
    line.ask(metadata(*names), 9)
    world.topic("a", 2)
    line.ask(metadata(names[0]), 9)


@script
def delete_topics_by_id(world: World) -> None:
    """By id, unknown, twice, beside the name of the same."""
    names = [world.topic(stem) for stem in "abc"]
    ids = [world.topic_id(name) for name in names]
    line = world.connect()

    def delete(*states: tuple[str | None, bytes]) -> None:
        topics = [DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in states]
        line.ask(DeleteTopicsRequest(timeout_ms=5000, topics=topics), 6)

    delete((None, ids[0]))
    delete((None, b"?" * 16))
    delete((None, b"?" * 16), (None, b"?" * 16))
    delete((None, ZERO_UUID))
    delete((names[1], ids[1]))
    delete((names[1], ZERO_UUID), (None, ids[1]))
    delete((None, ids[2]), (names[2], ZERO_UUID), (names[1], ZERO_UUID))


@script
def delete_records(world: World) -> None:
    """Every offset around the log, and logs that may not be cut."""
    topic = world.topic(partitions=2)
    compacted = world.topic("compacted", cleanup_policy="compact")
    both = world.topic("both", cleanup_policy="compact,delete")
    fill(world, topic, *(batch(world, b"a", b"b") for _ in range(3)))
    line = world.connect()

    def cut(offset: int, name: str = topic, partition: int = 0) -> None:
        row = DeleteRecordsPartition(partition_index=partition, offset=offset)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=[row])], timeout_ms=5000)
        line.ask(request, about=str(offset))

    for offset in (0, 3, 2, 7, -2, -1, -1, 6, 7):
        cut(offset)
    cut(-1, partition=1)
    cut(0, partition=2)
    cut(0, world.name("none"))
    cut(0, compacted)
    cut(-1, both)


@script
def describe_configs(world: World) -> None:
    """A topic's settings with their sources, some of them only, and resources that are not there."""
    topic = world.topic(cleanup_policy="compact", retention_ms="5", compression_type="lz4")
    line = world.connect()
    version = world.version(DescribeConfigsRequest)

    def describe(*resources: tuple[int, str, list[str] | None]) -> None:
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
                for kind, name, keys in resources
            ],
            include_synonyms=True,
        )
        answer = line.send(request, version).quiet_answer()
        for result in answer.results:
            result.configs = [_as_here(c) for c in result.configs if _comparable(c)]
            result.configs.sort(key=lambda config: str(config.name))
        world.note(f"DescribeConfigs {version} {len(resources)}", world.normal.of(answer))

    describe((2, topic, None))
    describe((2, topic, ["retention.ms", "nonsense", "cleanup.policy"]))
    describe((2, world.name("none"), None), (2, "a/b", None), (2, topic, ["segment.ms"]))
    describe((4, "1", ["message.max.bytes", "num.partitions", "min.insync.replicas"]))
    describe((4, "2", None))
    describe((4, "x", None))
    describe((4, "", None))
    describe((99, "x", None), (2, topic, None))
    describe((0, "x", None))
    describe()


def _comparable(config: Any) -> bool:
    return config.name not in TOLD_OTHERWISE or config.config_source == 1


def _as_here(config: Any) -> Any:
    """Leave out what the real cluster was told in its properties."""
    config.synonyms = [one for one in config.synonyms if one.source != STATIC]
    if config.name == "retention.ms":
        config.synonyms = config.synonyms[:1]
    return config
