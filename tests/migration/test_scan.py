"""What ``scan`` finds in programs, of the kinds that are common in public repositories."""

from textwrap import dedent

import pytest

from thinconsumer.migration import scan


def found(program):
    """Return each finding as its line and what is there."""
    return [(one.line, one.what) for one in scan(dedent(program))]


def instead(program, what):
    """Return what to write instead."""
    return next(one.instead for one in scan(dedent(program)) if one.what == what)


def test_imports_of_kafka_python_change_and_producers_stay():
    program = """
        from kafka import KafkaConsumer, KafkaProducer as Out, TopicPartition
        from kafka.errors import KafkaError
        from kafka.structs import OffsetAndMetadata, BrokerMetadata
        consumer = KafkaConsumer("orders", bootstrap_servers="localhost:9092")
        for message in consumer:
            print(message.value)
        """
    imports = [one for one in scan(dedent(program)) if one.what.startswith("import")]
    assert [one.instead for one in imports] == [
        "from thinconsumer.compat.kafka import KafkaConsumer, TopicPartition; from kafka import KafkaProducer as Out",
        "from thinconsumer.compat.kafka.errors import KafkaError",
        "from thinconsumer.compat.kafka import OffsetAndMetadata; from kafka.structs import BrokerMetadata",
    ]
    assert found(program) == [(one.line, one.what) for one in imports]


@pytest.mark.parametrize(
    "program",
    [
        "from kafka import KafkaProducer, TopicPartition\nfrom kafka.errors import KafkaError\nKafkaProducer(acks=1)",
        "from confluent_kafka import Producer, KafkaException\ndef done(err, msg):\n    print(msg.topic(), err)",
        "from confluent_kafka import KafkaError, Message\ndef f(err, m: Message):\n    m.topic(), KafkaError._STATE",
        "from confluent_kafka import ShareConsumer, KafkaError\nShareConsumer({}).poll(1)",
        "from aiokafka import AIOKafkaProducer",
        "from thinconsumer.compat.kafka import KafkaConsumer\nKafkaConsumer(api_version=(1,), group_id='g')",
        "from .kafka import KafkaConsumer\nKafkaConsumer(api_version=1)",
        "import subprocess\nproc = subprocess.Popen([])\nproc.poll()  # kafka",
        "",
        "invalid syntax, and no word of k*fka",
    ],
)
def test_other_programs_need_no_change(program):
    assert scan(program) == []


def test_options_are_found_where_they_are():
    program = """
        import kafka

        DEFAULTS = dict(group_id="g", metrics_enabled=False)

        class Worker:
            settings = {"api_version": (0, 10)}

            def __init__(self, extra):
                self.options = {**DEFAULTS, "kafka_client": Client}
                self.options["legacy_iterator"] = True
                self.consumer = kafka.KafkaConsumer(**self.settings, **self.options, **extra)

            def run(self):
                self.consumer._client.poll()
        """
    assert found(program) == [
        (4, "metrics_enabled"),
        (7, "api_version"),
        (10, "kafka_client"),
        (11, "legacy_iterator"),
        (12, "a consumer in a group"),
        (12, "kafka.KafkaConsumer"),
        (12, "options of KafkaConsumer from elsewhere: extra"),
        (15, "_client"),
    ]


def test_a_program_of_confluent_kafka_from_top_to_bottom():
    program = """
        from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

        def settings():
            return {"bootstrap.servers": "a:9092", "group.id": "g", "isolation.level": "read_committed"}

        def main(path):
            conf = settings()
            conf.update({"queued.min.messages": 5})
            consumer = Consumer(conf | {"error_cb": print}, logger=log)
            consumer.subscribe(["^orders.*"], on_assign=assigned)
            while True:
                msg = consumer.poll(timeout=1.0)
                if msg is None:
                    continue
                if msg.error():
                    if msg.error().code() == KafkaError._PARTITION_EOF:
                        continue
                    raise KafkaException(msg.error())
                handle(msg.value(), msg.key(), msg.headers())
                consumer.store_offsets(msg)

        def assigned(consumer, partitions):
            consumer.assign([TopicPartition("orders", 0, 17), TopicPartition(topic="orders", partition=1)])
            consumer.assignment()
        """
    assert found(program) == [
        (2, "import from confluent_kafka"),
        (9, "queued.min.messages"),
        (10, "Consumer(...)"),
        (10, "a consumer in a group"),
        (10, "error_cb"),
        (10, "logger"),
        (11, "subscribe(['^orders.*'])"),
        (11, "subscribe(on_assign=...)"),
        (13, "poll()"),
        (16, "msg.error()"),
        (17, "KafkaError._PARTITION_EOF"),
        (19, "KafkaException"),
        (20, "a method of a message"),
        (20, "msg.headers()"),
        (21, "store_offsets()"),
        (24, "TopicPartition with an offset"),
        (24, "assign()"),
    ]
    assert instead(program, "import from confluent_kafka") == (
        "from thinconsumer import Consumer, KafkaError, TopicPartition"
    )
    assert next(one.also for one in scan(dedent(program)) if one.what == "msg.error()") == (17, 19)


def test_consumers_are_followed_through_functions_classes_and_annotations():
    program = """
        from contextlib import closing
        from confluent_kafka import Consumer, Message

        class Mine(Consumer):
            def __init__(self, conf):
                super().__init__(conf)

            def next(self):
                return self.consume(1, 1.0)

        def make() -> Consumer:
            return Mine({"enable.partition.eof": True})

        def use(source: "Consumer", other: Consumer | None = None):
            source.memberid()
            other.list_topics()

        with closing(make()) as reader:
            for one in reader.consume(5):
                one.timestamp()

        def show(each: Message):
            each.topic()
        """
    lines = found(program)
    assert (7, "Consumer(...)") in lines and (7, "options of Consumer from elsewhere: conf") in lines
    assert (10, "consume()") in lines and (13, "enable.partition.eof") in lines
    assert (16, "memberid()") in lines and (17, "list_topics()") in lines
    assert (21, "one.timestamp()") in lines and (24, "a method of a message") in lines


def test_a_module_that_only_handles_messages_is_read_and_one_with_a_property():
    program = """
        import confluent_kafka
        from confluent_kafka import Message, TopicPartition

        def handle(item: Message):
            item.key()
            return TopicPartition("orders")
        """
    assert [what for _, what in found(program)[1:]] == [
        "Message", "a method of a message", "TopicPartition without a partition",
    ]  # fmt: skip
    program = """
        from confluent_kafka import Consumer

        class Source:
            @property
            def reader(self):
                if self._reader is None:
                    self._reader = Consumer(self.settings)
                return self._reader

            def run(self):
                self.reader.memberid()
        """
    assert (12, "memberid()") in found(program)


def test_a_delivery_callback_beside_a_consumer_is_left_alone():
    program = """
        from confluent_kafka import Consumer as Reader, KafkaException, Producer

        def delivered(err, msg):
            print(msg.topic())

        def handle(msg):
            print(msg.topic())

        consumer = Reader(OPTIONS)
        """
    assert [line for line, what in found(program) if what == "a method of a message"] == [8]
    assert instead(program, "import from confluent_kafka") == (
        "from thinconsumer import Consumer as Reader; from confluent_kafka import KafkaException, Producer"
    )


def test_programs_of_aiokafka():
    program = """
        import aiokafka
        from aiokafka.errors import KafkaError
        from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor

        async def main(loop):
            async with aiokafka.AIOKafkaConsumer("t", loop=loop, group_id="g", rebalance_timeout_ms=9) as consumer:
                async for record in consumer:
                    print(record.value)
                consumer.unsubscribe()

        class Own(AbstractPartitionAssignor):
            name = "own"
        """
    assert found(program) == [
        (3, "import from aiokafka.errors"),
        (4, "import from aiokafka.coordinator.assignors.abstract"),
        (7, "aiokafka.AIOKafkaConsumer"),
        (7, "loop"),
        (7, "rebalance_timeout_ms"),
        (10, "unsubscribe()"),
        (12, "AbstractPartitionAssignor"),
    ]


def test_listeners_and_calls_that_the_compatible_consumer_refuses():
    program = """
        from kafka import ConsumerRebalanceListener, KafkaConsumer

        class Listener(ConsumerRebalanceListener):
            async def on_partitions_assigned(self, assigned):
                pass

        KafkaConsumer(value_deserializer=f).metrics(raw=True)
        """
    assert [what for _, what in found(program)[1:]] == [
        "async def on_partitions_assigned", "exceptions of deserializers", "metrics(raw=True)",
    ]  # fmt: skip


def test_secrets_are_not_shown():
    program = 'from confluent_kafka import Consumer\nConsumer({"sasl.password": "c4nary", "ssl.key": "c4nary"})'
    assert "c4nary" not in str(scan(program))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import kafka\nprint 'x'", "line 2: "),
        ("kafka = \0", "null bytes"),
        ("kafka = " + "(" * 5000, "."),
        ("kafka = " + "-" * 100_000 + "1", "nested"),
    ],
)
def test_a_text_that_is_no_python_is_an_error(text, words):
    with pytest.raises(ValueError, match=words):
        scan(text)


def test_variables_that_depend_on_each_other_are_followed_once():
    program = "from confluent_kafka import Consumer\nconf = {}\n"
    program += "".join(f"def f{n}(): return f{(n * 7 + 1) % 60}() or f{(n * 5 + 2) % 60}()\n" for n in range(60))
    program += "a = b = c = f1()\n" + "a = b\nb = c\nc = a\nconf = {**conf, **f1()}\n" * 20
    program += "Consumer(conf)\na.poll()\n"
    assert found(program)[-1][0] == program.count("\n") - 1
