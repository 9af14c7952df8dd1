"""Broker and topic configuration under Kafka's names, with defaults.

Fields that end in ``_s`` are in seconds and do not exist in Kafka. Where a default differs from Kafka's, the comment
gives the reason.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from thinconsumer.errors import IllegalArgumentError

from .acl.authorizer import STANDARD_AUTHORIZER, Authorizer, parse_super_users
from .acl.index import AclIndex
from .client_metrics import TELEMETRY_RECEIVER
from .group.consumer.assignors.registry import Assignor, AssignorSetting, resolve
from .group.consumer.policies import MIGRATION_POLICIES
from .topic_configs import TOPIC_CONFIGS, check_topic_config, parse_list


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Configuration shared by all brokers. Field names are Kafka's with ``_`` for ``.``.

    Raises:
        IllegalArgumentError: A number is below its minimum, the authorizer's class is unknown, a super user lacks
            its type or name, or an assignor or the migration policy is invalid.
    """

    num_partitions: int = 1
    #: 0 means three, or the number of brokers if lower. Kafka's default of 1 loses data when one broker fails.
    default_replication_factor: int = 0
    auto_create_topics_enable: bool = True
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    message_max_bytes: int = 1_048_588
    socket_request_max_bytes: int = 104_857_600
    max_connections: int = 10_000  #: Of all brokers together. Kafka has no limit; here each connection costs memory.
    replica_lag_time_max_ms: int = 30_000
    broker_session_timeout_ms: int = 1_000  #: Kafka's 9000 would delay every failover test by that time.
    fetch_max_bytes: int = 57_671_680
    max_incremental_fetch_session_cache_slots: int = 1_000
    offsets_topic_num_partitions: int = 5  #: Kafka's 50 would mean 45 empty logs in most tests.
    offsets_topic_replication_factor: int = 3  #: With fewer brokers than this, the number of brokers is used instead.
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    group_initial_rebalance_delay_ms: int = 0  #: Kafka's 3000 would delay every new group by that time.
    #: With Kafka's 6000, every test of a crashed member would take that long.
    group_min_session_timeout_ms: int = 100
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2_147_483_647
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 500  #: Kafka's 5000 would delay each step of a rebalance by that time.
    group_consumer_max_size: int = 2_147_483_647
    #: The assignors, the default first: names and full names of classes, separated by commas, or a tuple that may also
    #: have classes and objects (:class:`~.group.consumer.assignors.user_assignor.ConsumerGroupPartitionAssignor`).
    group_consumer_assignors: str | tuple[AssignorSetting, ...] = "uniform,range"
    #: With Kafka's 1000, the second of two changes in quick succession would take effect up to a second late.
    group_consumer_assignment_interval_ms: int = 0
    group_consumer_regex_refresh_interval_ms: int = 600_000
    #: Whether groups with members move to the consumer group protocol and back: disabled, upgrade, downgrade, or
    #: bidirectional.
    group_consumer_migration_policy: str = "bidirectional"
    transaction_state_log_num_partitions: int = 5  #: Kafka's 50 would mean 45 empty logs in most tests.
    transaction_state_log_replication_factor: int = 3
    transaction_max_timeout_ms: int = 900_000
    #: Kafka's 10000 would delay every transaction timeout test by up to that time.
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 1_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transactional_id_expiration_ms: int = 604_800_000
    producer_id_expiration_ms: int = 86_400_000
    #: Kafka's StandardAuthorizer makes the brokers check ACLs; without an authorizer every client may do everything.
    authorizer_class_name: str = ""
    super_users: str = ""  #: Principals that may do everything, separated by semicolons: "User:admin;User:CN=ops".
    allow_everyone_if_no_acl_found: bool = False
    #: "ClientTelemetryReceiver" makes brokers list the APIs by which clients push metrics, see ``pushed_metrics``.
    metric_reporters: str = ""
    telemetry_max_bytes: int = 1_048_576

    coordinator_load_s: float = 0.0  #: Seconds that a new coordinator takes to load its partition.
    replication_s: float = 0.0  #: Mean delay after which followers copy a batch; 0: they copy it immediately.
    #: Maximum delay of a metadata delta from the controller to a broker; the delay of each delta is random.
    metadata_lag_s: float = 0.0
    #: The assignors of ``group_consumer_assignors`` by name.
    server_assignors: Mapping[str, Assignor] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, value in self.settings().items():
            if isinstance(value, str | tuple):
                continue
            lowest = 1 if name in _POSITIVE else 0
            if not value >= lowest:
                raise IllegalArgumentError(f"Invalid value {value} for configuration {name}: must be at least {lowest}")
        if self.authorizer_class_name not in ("", STANDARD_AUTHORIZER):
            raise IllegalArgumentError(
                f"Invalid value {self.authorizer_class_name!r} for configuration authorizer.class.name: must be empty "
                f"or {STANDARD_AUTHORIZER}"
            )
        if self.metric_reporters not in ("", TELEMETRY_RECEIVER):
            raise IllegalArgumentError(
                f"Invalid value {self.metric_reporters!r} for configuration metric.reporters: must be empty or "
                f"{TELEMETRY_RECEIVER}"
            )
        parse_super_users(self.super_users)
        self._check_consumer_groups()

    def settings(self) -> dict[str, Any]:
        """Return the value of each setting by the name of its field."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.init}

    def _check_consumer_groups(self) -> None:
        assignors = self.group_consumer_assignors
        found = resolve(parse_list(assignors) if isinstance(assignors, str) else assignors)
        object.__setattr__(self, "server_assignors", found)
        if self.group_consumer_migration_policy.lower() not in MIGRATION_POLICIES:
            raise IllegalArgumentError(
                f"Invalid value {self.group_consumer_migration_policy!r} for configuration "
                f"group.consumer.migration.policy: must be one of {', '.join(MIGRATION_POLICIES)}"
            )

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> BrokerConfig:
        """Build a configuration from Kafka's dotted names, or the field names, with values or their text.

        Raises:
            IllegalArgumentError: An unknown name, or an invalid value.
        """
        kinds = {field.name: type(field.default) for field in fields(cls) if field.init}
        values: dict[str, Any] = {}
        for name, value in settings.items():
            own = name.replace(".", "_")
            if own not in kinds:
                close = difflib.get_close_matches(own, kinds, 1)
                hint = f"; did you mean {close[0].replace('_', '.')!r}?" if close else ""
                raise IllegalArgumentError(f"unknown broker config {name!r}{hint}")
            is_list = own == "group_consumer_assignors" and not isinstance(value, str)
            values[own] = tuple(value) if is_list else _parsed(name, value, kinds[own])
        return cls(**values)


def new_authorizer(config: BrokerConfig, acls: AclIndex) -> Authorizer | None:
    """Return the authorizer that decides by ``acls``, or None if the configuration has none."""
    if not config.authorizer_class_name:
        return None
    return Authorizer(acls, parse_super_users(config.super_users), is_open=config.allow_everyone_if_no_acl_found)


#: Broker configs that must be at least 1; all other numeric ones may also be 0.
_POSITIVE = frozenset(
    {
        "num_partitions", "min_insync_replicas", "socket_request_max_bytes", "max_connections",
        "broker_session_timeout_ms", "offsets_topic_num_partitions", "offsets_topic_replication_factor",
        "offsets_retention_minutes", "group_max_size", "group_consumer_session_timeout_ms",
        "group_consumer_heartbeat_interval_ms", "group_consumer_max_size", "transaction_state_log_num_partitions",
        "transaction_state_log_replication_factor", "transaction_max_timeout_ms",
        "transaction_abort_timed_out_transaction_cleanup_interval_ms",
        "transaction_remove_expired_transaction_cleanup_interval_ms", "transactional_id_expiration_ms",
        "producer_id_expiration_ms", "telemetry_max_bytes",
    }
)  # fmt: skip


#: Public topic configs with Kafka's defaults as strings, as DescribeConfigs shows them.
TOPIC_DEFAULTS: Mapping[str, str] = {
    name: setting.default for name, setting in TOPIC_CONFIGS.items() if setting.is_public
}


#: A config that overrides segment.bytes without its minimum of 1 MiB; Kafka's own tests use it, too.
_SMALL_SEGMENTS = "internal.segment.bytes"


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic's parsed configuration, built by :meth:`parse`."""

    compact: bool = False
    compression_type: str = "producer"
    delete: bool = True
    delete_retention_ms: int = 86_400_000
    max_message_bytes: int = 1_048_588
    log_append_time: bool = False
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = 2**63 - 1
    min_insync_replicas: int = 1
    ordered_delivery: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    unclean_leader_election: bool = False

    @classmethod
    def parse(cls, configs: Mapping[str, str], broker: BrokerConfig | None = None) -> TopicConfig:
        """Read Kafka's dotted names; missing ones have the value of the broker's configuration, else Kafka's default.

        Raises:
            IllegalArgumentError: An unknown name, or an invalid value; the message is sent to the client.
        """
        broker = broker or BrokerConfig()
        for name, value in configs.items():
            # segment.bytes is checked with the rules of internal.segment.bytes, which has no minimum of 1 MiB. Only
            # topics created by a client's request need that minimum; validate_topic_configs checks it for them.
            check_topic_config(name, value, TOPIC_CONFIGS.get(_SMALL_SEGMENTS if name == "segment.bytes" else name))
        own = {
            "max.message.bytes": str(broker.message_max_bytes),
            "min.insync.replicas": str(broker.min_insync_replicas),
            "unclean.leader.election.enable": str(broker.unclean_leader_election_enable).lower(),
        }
        values = {name: value.strip() for name, value in {**TOPIC_DEFAULTS, **own, **configs}.items()}
        values["segment.bytes"] = values.get(_SMALL_SEGMENTS, values["segment.bytes"])
        # As in Kafka, cleanup.policy may be an empty list (KIP-1161): records are then neither deleted nor compacted.
        policies = parse_list(values["cleanup.policy"])
        return cls(
            compact="compact" in policies,
            compression_type=values["compression.type"],
            delete="delete" in policies,
            log_append_time=values["message.timestamp.type"] == "LogAppendTime",
            ordered_delivery=values.get("enable.ordered.delivery", "").lower() == "true",
            unclean_leader_election=values["unclean.leader.election.enable"].lower() == "true",
            **{
                field.name: int(values[field.name.replace("_", ".")])
                for field in fields(cls)
                if type(field.default) is int
            },
        )


def _parsed(name: str, value: Any, kind: type[Any]) -> Any:
    try:
        if kind is bool:
            return {"true": True, "false": False}[str(value).lower()]
        return kind(value)
    except (KeyError, TypeError, ValueError):
        raise IllegalArgumentError(f"Invalid value {value!r} for configuration {name}: not a {kind.__name__}") from None
