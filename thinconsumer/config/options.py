"""The consumer's options, each declared once: name, type, bounds, meaning and default.

Parsing, checks, dotted names and ``docs/options.md`` are derived from these declarations. Names and defaults are
kafka-python's, with the exceptions in ``docs/migrating.md``; meanings follow Kafka's ``ConsumerConfig``. Durations are
in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..support.lazy_dataclass import dataclass, field
from . import kinds
from .client_options import ClientOptions
from .declare import Option, as_passed, section
from .rules import NODE_BYTES_MIN, ROWS_FETCH_BYTES
from .values import EARLIEST, INT64_MAX, LATEST, DeadLetter, Deserializer, OffsetResetPolicy

_cluster = section("Reaching the cluster")
_link = section("Connections")
_read = section("Reading")
_position = section("Where to start")
_group = section("Groups")
_member = section("Groups", needs_group=True)

_TOPIC_LIKE = r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}"

#: Takes (host, port) and returns the addresses to try, each a ``thinconsumer.driver.Address``.
Resolver = Callable[[str, int], Sequence[Any]]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, init=False, eq=False)
class ConsumerConfig(ClientOptions):
    """The options of one consumer. Build it with :meth:`from_options`: the constructor checks nothing."""

    bootstrap_timeout_ms: int = _cluster(
        kinds.INT32,
        "While no broker answers, or only bootstrap servers do, `poll` returns nothing for this long and then raises "
        "`NoBrokersAvailable` with the cause for each address.",
        30000,
    )
    client_dns_lookup: str = _cluster(
        kinds.Choice(
            ("use_all_dns_ips",),
            {
                "resolve_canonical_bootstrap_servers_only": "its reverse look-ups serve Kerberos only; set "
                "sasl_kerberos_domain_name if brokers are reached by an alias"
            },
        ),
        "All addresses of a host are tried before it counts as unreachable.",
        "use_all_dns_ips",
    )
    resolver: Resolver | None = _cluster(
        kinds.Function("(host, port)"),
        "Looks up a host name, and may block. Returns the addresses to try, in order, each a "
        "`thinconsumer.driver.Address`, or raises. None: with the extra `resolver`, c-ares, which does not block, "
        "reads the hosts file and queries the name servers (pycares frees its channels on a daemon thread); without "
        "that extra, the system's resolver, which blocks (`thinconsumer.sockets.system_resolver`).",
    )
    enable_metrics_push: bool | None = _cluster(
        kinds.Boolean(),
        "Whether the metrics that a broker asks for are [pushed to it](observability.md#metrics-pushed-to-brokers) "
        "(KIP-714). It needs the extra `telemetry`. None: if that is installed.",
    )
    exclude_internal_topics: bool = _cluster(
        kinds.Boolean(),
        "Whether a subscription by pattern leaves out internal topics such as `__consumer_offsets`.",
        True,
    )

    receive_buffer_bytes: int | None = _link(
        kinds.Integer(at_least=1, system_default=True), "Size of the socket's receive buffer. None: the system's own."
    )
    send_buffer_bytes: int | None = _link(
        kinds.Integer(at_least=1, system_default=True), "Size of the socket's send buffer. None: the system's own."
    )
    socket_options: tuple[tuple[int, int, int | bytes], ...] = _link(
        kinds.SocketOptions(),
        "Options set on every socket, in order. The default is TCP_NODELAY.",
        ((6, 1, 1),),  # (IPPROTO_TCP, TCP_NODELAY, 1): these numbers are the same on Linux, macOS and Windows.
    )
    selector: Callable[[], Any] | None = _link(
        kinds.Function("()"),
        "Returns the selector to wait for I/O with, as a class of `selectors` does. None: `selectors.DefaultSelector`.",
    )

    key_deserializer: Deserializer | None = _read(
        kinds.DeserializerKind(), "Converts a record's key from bytes; a missing key stays None. None: raw bytes."
    )
    value_deserializer: Deserializer | None = _read(
        kinds.DeserializerKind(),
        "Converts a record's value from bytes; a tombstone's stays None. None: raw bytes. It runs inside `poll` and "
        "may not call the consumer.",
    )
    interceptor_classes: tuple[Any, ...] = _read(
        kinds.Plugins(("on_consume", "on_commit")),
        "Interceptors, such as subclasses of `ConsumerInterceptor`, in the order of their calls: `on_consume` may "
        "replace the records that are returned, `on_commit` gets committed offsets. Their exceptions are logged. "
        "`poll_batches` and `poll_raw` call no `on_consume`.",
        (),
    )
    metric_reporters: tuple[Any, ...] = _read(
        kinds.Plugins(("init", "metric_change", "metric_removal"), ("org.apache.kafka.common.metrics.JmxReporter",)),
        "Reporters as kafka-python's `AbstractMetricsReporter`: they are told which metrics there are, and "
        "read their values. Exceptions are logged, except those of `configure` and `init`.",
        (),
    )
    on_bad_record: str | DeadLetter | Callable[..., Any] = _read(
        kinds.BadRecordPolicy(),
        "What happens to a record that a deserializer raises for. `'raise'`: `poll` raises `DeserializationError`, and "
        "the position stays there; `'skip'`: the record is left out, with a warning; `dead_letter(topic)`: it is "
        "written to the topic, and left out; a callable gets that error, with the raw bytes: if it returns, the record "
        "is left out, if it raises, `poll` does. See [bad records](errors.md#bad-records).",
        "raise",
    )
    trace: str = _read(
        kinds.Text(),
        "A file to write a [trace that replays](replay.md) to; of a `Consumer` only. The environment variable "
        "`THINCONSUMER_TRACE` does the same for all consumers of a program.",
        "",
    )
    trace_bytes_max: int = _read(
        kinds.POSITIVE_INT64,
        "How many bytes a trace keeps on the disk, in two files. Earlier events are dropped.",
        256 << 20,
    )
    max_poll_records: int = _read(kinds.POSITIVE_INT32, "How many records one `poll` returns at most.", 500)
    consumer_timeout_ms: float = _read(
        kinds.MillisecondsOrNever(),
        "Iteration ends when no record came for this long, counted from the first completed fetch.",
        float("inf"),
    )
    fetch_min_bytes: int = _read(
        kinds.INT32, "The broker answers a Fetch once it has this many bytes, or after `fetch_max_wait_ms`.", 1
    )
    fetch_max_wait_ms: int = _read(
        kinds.INT32, "How long the broker may delay a Fetch response while it has fewer than `fetch_min_bytes`.", 500
    )
    fetch_max_bytes: int = _read(
        kinds.POSITIVE_INT32, "Limit of a Fetch response in bytes. A larger batch is still delivered.", 52428800
    )
    max_partition_fetch_bytes: int = _read(
        kinds.POSITIVE_INT32,
        "Limit of one partition's part of a Fetch response, in bytes. A larger batch is still delivered. If it is not "
        "given, `poll` requests 2 MiB for a single partition if numpy is installed.",
        1048576,
    )
    batches_fetch_bytes: int = _read(
        kinds.POSITIVE_INT32,
        "How many bytes `poll_batches` requests, divided among the assigned partitions, with at least "
        "`max_partition_fetch_bytes` for each. If only `max_partition_fetch_bytes` is given, its value is used.",
        4_000_000,
    )
    max_buffered_bytes: int = _read(
        kinds.Integer(at_least=65536, at_most=INT64_MAX),
        "Limit of fetched and undelivered bytes, over all partitions. Each broker may exceed it by one batch, since a "
        "response has at least one. Besides, each connection keeps up to two receive buffers of at most 4 MB. If it is "
        "not given, `poll` reads 16 MiB ahead, or four responses per broker if that is more (each of the largest of "
        "1 MiB, `max_partition_fetch_bytes` and `fetch_min_bytes`); it reads up to this limit only while it can return "
        "no record of what it has read ahead.",
        67108864,
    )
    enable_incremental_fetch_sessions: bool = _read(
        kinds.Boolean(), "Whether Fetch requests name only what changed since the last one (KIP-227).", True
    )
    check_crcs: bool = _read(kinds.Boolean(), "Whether to verify each batch's checksum.", True)
    isolation_level: str = _read(
        kinds.Choice(("read_uncommitted", "read_committed")),
        "`'read_committed'` leaves out records of aborted transactions and stops before those of open ones (KIP-98).",
        "read_uncommitted",
    )
    client_rack: str = _read(
        kinds.Text(),
        "The client's rack, to fetch from a replica in the same rack (KIP-392). Empty: from the leader.",
        "",
    )

    auto_offset_reset: OffsetResetPolicy = _position(
        kinds.OffsetReset(),
        "Where to start a partition that has no committed offset, or one outside the log. `'none'` raises; "
        "`'by_duration:PT1H'` starts an hour back (KIP-1106).",
        LATEST,
    )
    new_partition_offset_reset: OffsetResetPolicy = _position(
        kinds.OffsetReset(("earliest", "latest", "by_duration")),
        "With `auto_offset_reset='latest'`: where to start a partition that was added, or whose topic was created, "
        "while this consumer ran. By default, records written before the consumer noticed the partition are not "
        "skipped.",
        EARLIEST,
    )

    group_id: str | None = _group(
        kinds.WORD,
        "The consumer group. None: no group, no coordinator, no commits; `subscribe` assigns all partitions.",
    )
    group_instance_id: str | None = _member(
        kinds.Text(
            may_be_empty=False,
            pattern=_TOPIC_LIKE,
            pattern_says="at most 249 letters, digits, dots, underscores and hyphens, and neither '.' nor '..'",
        ),
        "Name of a static member: it may restart within its session without a rebalance (KIP-345).",
    )
    group_protocol: str = _group(
        kinds.Choice(("classic", "consumer", "auto")),
        "The group protocol. `'consumer'` (KIP-848) needs Kafka 4.0: the coordinator assigns partitions, and a "
        "rebalance stops no member. `'auto'` is `'consumer'` where the coordinator supports it, and `'classic'` "
        "elsewhere, or if an option is given that only the classic protocol has.",
        "classic",
    )
    group_remote_assignor: str | None = _member(
        kinds.WORD,
        "With `group_protocol='consumer'`: the broker's assignor, `'uniform'`, `'range'` or one of your own "
        "(`group.consumer.assignors`). None: the first one of the broker.",
    )
    partition_assignment_strategy: tuple[Any, ...] = _member(
        kinds.Assignors(),
        "Assignors that this member supports, the preferred one first. Rebalances are cooperative "
        "only if all of them are. Classic protocol only.",
        ("range", "cooperative-sticky"),
    )
    session_timeout_ms: int = _member(
        kinds.POSITIVE_INT32,
        "The coordinator removes a member after this long without a heartbeat. Heartbeats are sent only inside calls, "
        "so this also limits the time between calls of `poll` and `drive`. Classic protocol only: otherwise the "
        "broker's `group.consumer.session.timeout.ms` applies.",
        45000,
    )
    heartbeat_interval_ms: int = _member(
        kinds.POSITIVE_INT32,
        "Interval of heartbeats; at most a third of `session_timeout_ms` is advisable. Classic protocol only: "
        "otherwise the broker's `group.consumer.heartbeat.interval.ms` applies.",
        3000,
    )
    max_poll_interval_ms: int = _member(
        kinds.POSITIVE_INT32,
        "How long the group waits for this member to rejoin in a rebalance, or to revoke partitions. It does not "
        "prolong the session.",
        300000,
    )
    ordered_delivery: str = _group(
        kinds.Choice(("topic", "barrier", "off")),
        "Order by key while partitions are added: `'topic'` keeps it on topics with ordered delivery, which only the "
        "embedded broker has; `'barrier'` also lets new partitions of all other topics start after the old ones, see "
        "[ordered delivery](ordered-delivery.md#on-real-kafka); `'off'` never holds a partition.",
        "topic",
    )
    ordered_delivery_grace_ms: int = _group(
        kinds.INT32,
        "With `ordered_delivery='barrier'`: how long producers may go on with the old partition count. To keep the "
        "order of a producer's records, set at least the sum of its `metadata.max.age.ms`, `delivery.timeout.ms` and "
        "`request.timeout.ms`, which is [more than the default](ordered-delivery.md#what-that-promises).",
        300000,
    )
    enable_auto_commit: bool = _member(
        kinds.Boolean(),
        "Whether `poll` commits the offsets of records that earlier polls returned, every `auto_commit_interval_ms`.",
        True,
    )
    auto_commit_interval_ms: int = _member(kinds.INT32, "Shortest time between automatic commits.", 5000)
    allow_foreign_commits: bool = _member(
        kinds.Boolean(),
        "Whether a subscribed consumer commits offsets of partitions that it does not own, as Java's does. These "
        "replace the offsets that the partitions' owners commit. If False, such a commit raises "
        "`PartitionNotOwnedError`.",
        False,
    )
    default_offset_commit_callback: Callable[..., Any] | None = _member(
        kinds.Function("(offsets, response_or_error)"),
        "Called after a commit without a callback of its own. None: no call.",
    )

    # The following fields are no options: ``rules.derive_defaults`` computes them from the options.
    #: How many bytes ``poll`` requests with numpy, divided among the assigned partitions, if that is more than
    #: ``max_partition_fetch_bytes`` for each.
    rows_fetch_bytes: int = field(default=ROWS_FETCH_BYTES)
    #: How many bytes of each broker ``poll`` reads ahead, but at least 16 MiB of all brokers together;
    #: ``max_buffered_bytes`` if that is given.
    node_bytes: int = field(default=NODE_BYTES_MIN)
    #: The given options that only the classic protocol has: with ``group_protocol="auto"``, any of them selects that
    #: protocol.
    classic_options: tuple[str, ...] = field(default=())

    if TYPE_CHECKING:

        @classmethod
        def from_options(cls, /, **options: Any) -> ConsumerConfig: ...


#: Every option by name, in the order of the docs.
OPTIONS: dict[str, Option] = ConsumerConfig.options()


def shared(name: str) -> Any:
    """Return a dataclass field that gives another client the consumer's option ``name``, with the same default."""
    declared = OPTIONS[name]
    return field(default=declared.default, metadata={"option": declared})


class OptionsHelp:
    """A ``__doc__`` with all options appended. The text is wrapped when it is read: at import this would take 2 ms."""

    def __init__(self, doc: str | None) -> None:
        self._doc = doc

    def __get__(self, instance: object, owner: type) -> str:
        import inspect
        import textwrap

        lines = [
            textwrap.fill(
                f"{name} ({option.kind.description}; default {default_of(name, option)}): {meaning_of(option)}",
                120,
                initial_indent=" " * 4,
                subsequent_indent=" " * 8,
                break_long_words=False,
                break_on_hyphens=False,
            )
            for name, option in OPTIONS.items()
        ]
        return "\n".join([inspect.cleandoc(self._doc or ""), "", "Options:", *lines])


def meaning_of(option: Option) -> str:
    return f"{option.doc} Needs `group_id`." if option.needs_group else option.doc


def default_of(name: str, option: Option) -> str:
    """Return the default as Python code."""
    if name == "client_id":
        return "thinconsumer-<version>"
    return "float('inf')" if option.default == float("inf") else repr(as_passed(option.default))
