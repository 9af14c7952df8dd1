"""The options as static type checkers see them (PEP 692), and as ``help(Consumer)`` lists them.

Made by docs/generate_options.py from the declarations in thinconsumer/config/options.py. Do not edit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from .values import OffsetResetPolicy


class ClientKeywords(TypedDict, total=False):
    """The options of every client."""

    bootstrap_servers: str | list[str] | tuple[str, ...]
    client_id: str
    default_api_timeout_ms: int
    metadata_max_age_ms: int
    metadata_recovery_strategy: str
    metadata_recovery_rebootstrap_trigger_ms: int
    allow_auto_create_topics: bool
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    connections_max_idle_ms: float
    max_in_flight_requests_per_connection: int
    receive_message_max_bytes: int
    security_protocol: str


class ConsumerOptions(ClientKeywords, total=False):
    """The options of Consumer."""

    bootstrap_timeout_ms: int
    client_dns_lookup: str
    resolver: Callable[..., Any] | None
    exclude_internal_topics: bool
    receive_buffer_bytes: int | None
    send_buffer_bytes: int | None
    socket_options: list[tuple[int, int, int | bytes]] | tuple[tuple[int, int, int | bytes], ...]
    selector: Callable[..., Any] | None
    max_poll_records: int
    consumer_timeout_ms: float
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    batches_fetch_bytes: int
    max_buffered_bytes: int
    enable_incremental_fetch_sessions: bool
    check_crcs: bool
    isolation_level: str
    client_rack: str
    auto_offset_reset: str | OffsetResetPolicy
    new_partition_offset_reset: str | OffsetResetPolicy
    group_id: str | None
    group_instance_id: str | None
    group_protocol: str
    partition_assignment_strategy: list[Any] | tuple[Any, ...]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    default_offset_commit_callback: Callable[..., Any] | None


class GroupMemberKeywords(ClientKeywords, total=False):
    """The options of GroupMember."""

    group_id: str | None
    group_instance_id: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int


class ProducerKeywords(ClientKeywords, total=False):
    """The options of the internal producer."""

    delivery_timeout_ms: int
    max_block_ms: int
    buffer_memory: int
    batch_size: int
    max_request_size: int
    compression_type: str


#: Appended to the docstring of ``Consumer``.
CONSUMER_HELP = """\
    Options:
        bootstrap_servers (str with commas, or list of str: `host`, `host:port`, `[ipv6]:port`; default
            'localhost:9092'): Servers to request the cluster's metadata from; one that answers is enough. The default
            port is 9092.
        client_id (str; default thinconsumer-<version>): The client id in every request, for the broker's logs, metrics
            and quotas.
        bootstrap_timeout_ms (int, at least 0; default 30000): While no broker answers, or only bootstrap servers do,
            `poll` returns nothing for this long and then raises `NoBrokersAvailable` with the cause for each address.
        default_api_timeout_ms (int, at least 0; default 60000): The timeout of calls that wait for a broker, unless
            they are given their own.
        client_dns_lookup (`'use_all_dns_ips'`; default 'use_all_dns_ips'): All addresses of a host are tried before it
            counts as unreachable.
        resolver (callable `(host, port)`; default None): Looks host names up; may block. Returns the addresses to try
            in order, each a `thinconsumer.driver.Address`, or raises. None: with extra `resolver`, c-ares, which does
            not block, reads the hosts file and asks the name servers (pycares frees its channels on a daemon thread);
            without it the system's resolver, which blocks: `thinconsumer.net.system_resolver`.
        metadata_max_age_ms (int, at least 0; default 300000): Metadata is refreshed after this time, so that new
            partitions and brokers are noticed.
        metadata_recovery_strategy (`'rebootstrap'` or `'none'`; default 'rebootstrap'): What to do when no known broker
            answers: go back to `bootstrap_servers`, or keep trying (KIP-899).
        metadata_recovery_rebootstrap_trigger_ms (int, at least 0; default 300000): Go back to `bootstrap_servers` when
            metadata could not be refreshed for this long (KIP-1102).
        allow_auto_create_topics (bool; default False): Whether a metadata request may create a missing topic, if the
            broker allows it.
        exclude_internal_topics (bool; default True): Whether a subscription by pattern leaves out internal topics such
            as `__consumer_offsets`.
        request_timeout_ms (int, at least 1; default 30000): How long a request may take, including the wait for its
            connection, before it fails.
        retry_backoff_ms (int, at least 0; default 100): Backoff after the first failure of a request; doubles with each
            consecutive failure. When not given, at most `retry_backoff_max_ms`.
        retry_backoff_max_ms (int, at least 0; default 1000): Longest backoff of requests. When not given, at least
            `retry_backoff_ms`.
        reconnect_backoff_ms (int, at least 0; default 50): Backoff after the first failure to connect to a broker;
            doubles with each consecutive failure. When not given, at most `reconnect_backoff_max_ms`.
        reconnect_backoff_max_ms (int, at least 0; default 1000): Longest backoff of connections. When not given, at
            least `reconnect_backoff_ms`.
        socket_connection_setup_timeout_ms (int, at least 1; default 10000): How long connecting to one address may take
            at first; doubles with each consecutive failure (KIP-601). When not given, at most
            `socket_connection_setup_timeout_max_ms`.
        socket_connection_setup_timeout_max_ms (int, at least 1; default 30000): How long connecting may take at most.
            When not given, at least `socket_connection_setup_timeout_ms`.
        connections_max_idle_ms (number, at least 1, or `float('inf')` or -1 for no limit; default 540000): Close a
            connection that was not used for this long; below the broker's own limit of ten minutes, so that it is not
            closed under a request.
        max_in_flight_requests_per_connection (int, at least 1; default 5): How many requests may be in flight on one
            connection.
        receive_message_max_bytes (int, at least 1024; default 100000000): Largest response to accept; a peer that
            announces more is disconnected. When not given, at least `fetch_max_bytes` + `max_partition_fetch_bytes`.
        receive_buffer_bytes (int, at least 1, or -1 for the system's own; default None): Size of the socket's receive
            buffer. None: the system's own.
        send_buffer_bytes (int, at least 1, or -1 for the system's own; default None): Size of the socket's send buffer.
            None: the system's own.
        socket_options (list of (level, option, value), as for `socket.setsockopt`; default ((6, 1, 1),)): Options set
            on every socket, in order. The default is TCP_NODELAY.
        selector (callable `()`; default None): Returns the selector to wait for I/O with, as a class of `selectors`
            does. None: `selectors.DefaultSelector`.
        key_deserializer (callable `f(data)`, or object with `deserialize(topic, headers, data)` or `deserialize(topic,
            data)`; `data` is bytes; default None): Converts a record's key from bytes; a missing key stays None. None:
            raw bytes.
        value_deserializer (callable `f(data)`, or object with `deserialize(topic, headers, data)` or
            `deserialize(topic, data)`; `data` is bytes; default None): Converts a record's value from bytes; a
            tombstone's stays None. None: raw bytes. It runs inside `poll` and may not call the consumer.
        max_poll_records (int, at least 1; default 500): How many records one `poll` returns at most.
        consumer_timeout_ms (number, at least 0, or `float('inf')` or -1 for no limit; default float('inf')): Iteration
            ends when no record came for this long, counted from the first completed fetch.
        fetch_min_bytes (int, at least 0; default 1): The broker answers a Fetch once it has this many bytes, or after
            `fetch_max_wait_ms`.
        fetch_max_wait_ms (int, at least 0; default 500): How long the broker may delay a Fetch response while it has
            fewer than `fetch_min_bytes`.
        fetch_max_bytes (int, at least 1; default 52428800): Limit of a Fetch response in bytes. A larger batch is still
            delivered.
        max_partition_fetch_bytes (int, at least 1; default 1048576): Limit of one partition's part of a Fetch response,
            in bytes. A larger batch is still delivered.
        batches_fetch_bytes (int, at least 1; default 4000000): The bytes that `poll_batches` requests, divided among
            the assigned partitions, unless that is less than `max_partition_fetch_bytes` for each. If only
            `max_partition_fetch_bytes` is set, it is used instead.
        max_buffered_bytes (int, at least 65536; default 67108864): Limit of fetched and undelivered bytes, over all
            partitions. Each broker may exceed it by one batch, since a response has at least one. Besides, each
            connection keeps up to two receive buffers of at most 4 MB.
        enable_incremental_fetch_sessions (bool; default True): Whether Fetch requests name only what changed since the
            last one (KIP-227).
        check_crcs (bool; default True): Whether to verify each batch's checksum.
        isolation_level (`'read_uncommitted'` or `'read_committed'`; default 'read_uncommitted'): `'read_committed'`
            leaves out records of aborted transactions and stops before those of open ones (KIP-98).
        client_rack (str; default ''): The client's rack, to fetch from a replica in the same rack (KIP-392). Empty:
            from the leader.
        auto_offset_reset (`'earliest'` or `'latest'` or `'none'` or `'by_duration:<ISO-8601 duration>'`; default
            'latest'): Where to start a partition that has no committed offset, or one outside the log. `'none'` raises;
            `'by_duration:PT1H'` starts an hour back (KIP-1106).
        new_partition_offset_reset (`'earliest'` or `'latest'` or `'by_duration:<ISO-8601 duration>'`; default
            'earliest'): Where to start, under `auto_offset_reset='latest'`, a partition that was added, or a topic
            created, while this consumer ran, so that records written before it was noticed are not skipped.
        group_id (str, not empty; default None): The consumer group. None: no group, no coordinator, no commits.
        group_instance_id (str: at most 249 letters, digits, dots, underscores and hyphens, and neither '.' nor '..';
            default None): Name of a static member: it may restart within its session without a rebalance (KIP-345).
            Needs `group_id`.
        group_protocol (`'classic'`; default 'classic'): The group protocol.
        partition_assignment_strategy (list of `'range'`, `'roundrobin'`, `'sticky'`, `'cooperative-sticky'`, or of
            `PartitionAssignor` (kafka-python's `AbstractPartitionAssignor` too); default ('range',
            'cooperative-sticky')): Assignors that this member supports, the preferred one first. Rebalances are
            cooperative only if all of them are. Needs `group_id`.
        session_timeout_ms (int, at least 1; default 45000): The coordinator removes a member after this long without a
            heartbeat. Heartbeats are sent only inside calls, so this also limits the time between calls of `poll` and
            `drive`. Needs `group_id`.
        heartbeat_interval_ms (int, at least 1; default 3000): Interval of heartbeats; at most a third of
            `session_timeout_ms` is advisable. Needs `group_id`.
        max_poll_interval_ms (int, at least 1; default 300000): How long the group waits for this member to rejoin in a
            rebalance. It does not prolong `session_timeout_ms`. Needs `group_id`.
        enable_auto_commit (bool; default True): Whether `poll` commits the offsets of records that earlier polls
            returned, every `auto_commit_interval_ms`. Needs `group_id`.
        auto_commit_interval_ms (int, at least 0; default 5000): Shortest time between automatic commits. Needs
            `group_id`.
        default_offset_commit_callback (callable `(offsets, response_or_error)`; default None): Called after a commit
            without a callback of its own. None: no call. Needs `group_id`.
        security_protocol (`'PLAINTEXT'`; default 'PLAINTEXT'): How to connect to brokers. TLS and SASL are not
            supported yet: they raise, and are never ignored.
"""
