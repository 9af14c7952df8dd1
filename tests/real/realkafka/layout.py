"""Files of a cluster's folder: properties of brokers, controllers and ZooKeeper, and of their logging.

Owns configuration as text. Starts nothing. Brokers listen on 127.0.0.1 only.
"""

import contextlib
import os
import random
import socket
from collections.abc import Mapping

HOST = "127.0.0.1"
#: Below the range that systems hand out to outgoing connections: a broker that is down must find its port free again.
PORTS = range(20000, 32000)
#: Test runs with so many workers at once, or fewer.
WORKERS = 4

#: Session timeout of groups that use the consumer group protocol.
CONSUMER_SESSION_MS = 6000
#: How fast a dead or paused broker loses its leaderships: the default, 9 s, makes failover tests slow.
BROKER_SESSION_MS = 3000

LOG4J2 = """\
<Configuration status="ERROR">
  <Appenders><Console name="out"><PatternLayout pattern="%d{ISO8601} %p %c{1} %m%n"/></Console></Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""
LOG4J1 = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c{1} %m%n
"""


def free_ports(count: int) -> list[int]:
    """Return ports that are free right now.

    Workers of one run take turns in the range: the port of a broker that is down for a while looks free to others.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    ports = PORTS[int(worker) % WORKERS :: WORKERS]
    found: list[int] = []
    with contextlib.ExitStack() as held:
        for port in random.SystemRandom().sample(ports, len(ports)):
            listener = held.enter_context(socket.socket())
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((HOST, port))
            except OSError:
                continue
            found.append(port)
            if len(found) == count:
                return found
    raise RuntimeError(f"no {count} free ports in {PORTS}")


def log4j2(*debug_loggers: str) -> str:
    """Return the configuration of the brokers' logging; these loggers print DEBUG lines too."""
    more = "".join(f'<Logger name="{name}" level="DEBUG"/>' for name in debug_loggers)
    return LOG4J2.replace("<Loggers>", f"<Loggers>{more}")


def text(properties: Mapping[str, object]) -> str:
    """Return a .properties file. Java reads it as Latin-1, in which a backslash begins an escape."""
    return "".join(f"{name}={_escaped(str(value))}\n" for name, value in properties.items())


def _escaped(value: str) -> str:
    units = value.replace("\\", "\\\\").encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if 32 <= code < 127 else f"\\u{code:04x}" for code in codes)


def with_listeners(properties: Mapping[str, object], listeners: Mapping[str, tuple[str, int]]) -> dict[str, object]:
    """Return the properties of a KRaft broker with more listeners: security protocol and port by name.

    Clients get the name "localhost", which certificates and Kerberos principals can have.
    """

    def joined(name: str, values: list[str]) -> str:
        return ",".join([str(properties[name]), *values])

    return {
        **properties,
        "listeners": joined("listeners", [f"{name}://{HOST}:{port}" for name, (_, port) in listeners.items()]),
        "advertised.listeners": joined(
            "advertised.listeners", [f"{name}://localhost:{port}" for name, (_, port) in listeners.items()]
        ),
        "listener.security.protocol.map": joined(
            "listener.security.protocol.map", [f"{name}:{protocol}" for name, (protocol, _) in listeners.items()]
        ),
    }


def common(brokers: int) -> dict[str, object]:
    """Return the properties that brokers of all versions have, for a cluster of this size."""
    replication = min(brokers, 3)
    in_sync = max(1, replication - 1)
    return {
        "auto.create.topics.enable": "false",
        "default.replication.factor": replication,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replication,
        "transaction.state.log.replication.factor": replication,
        "transaction.state.log.min.isr": in_sync,
        # The defaults, 50 each, are a second of work for a small machine.
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.num.partitions": 4,
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 1000,
        # The consumer group protocol (KIP-848), in which the broker decides; the defaults are 45 and 5 s.
        "group.consumer.min.session.timeout.ms": 1000,
        "group.consumer.session.timeout.ms": CONSUMER_SESSION_MS,
        "group.consumer.min.heartbeat.interval.ms": 100,
        "group.consumer.heartbeat.interval.ms": 500,
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "replica.lag.time.max.ms": 5000,
        # Tests wait for compaction and retention, which otherwise look every 15 s and 5 min.
        "log.cleaner.backoff.ms": 200,
        "log.cleaner.dedupe.buffer.size": 16 << 20,
        "log.retention.check.interval.ms": 1000,
        # With the default, records with old timestamps would be deleted within a second.
        "log.retention.ms": -1,
        # Also the interval at which a broker looks for deleted logs: with 0 it looks all the time, which takes more CPU
        # time than all else of an idle broker.
        "log.segment.delete.delay.ms": 500,
        "num.network.threads": 2,
        "num.io.threads": 4,
    }


def kraft(node: int, ports: Mapping[int, int], voters: Mapping[int, int], folder: str) -> dict[str, object]:
    """Broker and controller in one process, as ``node`` of a KRaft cluster; ``ports`` and ``voters`` by node."""
    return {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": ",".join(f"{voter}@{HOST}:{port}" for voter, port in voters.items()),
        "listeners": f"PLAINTEXT://{HOST}:{ports[node]},CONTROLLER://{HOST}:{voters[node]}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{ports[node]}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "broker.rack": f"r{node}",
        "log.dirs": folder,
        **common(len(ports)),
        "broker.session.timeout.ms": BROKER_SESSION_MS,
        "broker.heartbeat.interval.ms": 500,
        "log.initial.task.delay.ms": 500,
    }


def zookeeper(port: int, folder: str) -> dict[str, object]:
    return {
        "dataDir": folder,
        "clientPort": port,
        "clientPortAddress": HOST,
        "admin.enableServer": "false",
        "maxClientCnxns": 0,
        "tickTime": 1000,
    }


def with_zookeeper(node: int, ports: Mapping[int, int], zookeeper_port: int, folder: str) -> dict[str, object]:
    """A broker of the time of ZooKeeper.

    The inter-broker version stays at the broker's own. It has to be at least as new as any topic's option
    ``message.format.version``, so topics that keep sets v0 (0.9.0) and v1 (0.10.2) live beside others.
    """
    return {
        "broker.id": node,
        "listeners": f"PLAINTEXT://{HOST}:{ports[node]}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{ports[node]}",
        "broker.rack": f"r{node}",
        "zookeeper.connect": f"{HOST}:{zookeeper_port}",
        "zookeeper.session.timeout.ms": 4000,
        "log.dirs": folder,
        **common(len(ports)),
    }
