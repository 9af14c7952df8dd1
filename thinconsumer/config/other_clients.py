"""The options of librdkafka and Java's client that this package lacks: the sentence with which each is explained.

``unsupported`` looks here for names that are not in its own tables. A reason has Python names of this package's options
in backquotes; reports show them in the caller's spelling.
"""

from __future__ import annotations

from .unsupported import Unsupported

_LOGS = "log records go to the logger 'thinconsumer' and those below it: configure it with Python's logging"
_DEPRECATED = "librdkafka does not use it any more"
_VERSIONS = "versions are negotiated with each broker, over each connection"
_NO_THREAD = "there is no thread in the background: all happens inside your calls"
_NO_LEADER = "metadata without a leader is requested again after `retry_backoff_ms`"
_COORDINATOR = "offsets are committed to the group's coordinator, and kept in no file"
_LISTENER = "pass a RebalanceListener to subscribe()"
_IO = "a driver does all I/O: pass your own as from_config(..., driver=...)"
_INHERITED = "Python's files and sockets are never inherited by other programs"
_INTERNAL = "it is internal to Java's client"
_PRODUCERS = "it is an option of producers that this package does not have"
_SERVERS = "it is an option of brokers or topics: set it there"


def _ignored(reason: str, *harmless: object) -> Unsupported:
    return Unsupported(False, reason, (None, *harmless))


def _refused(reason: str, *harmless: object) -> Unsupported:
    return Unsupported(True, reason, (None, *harmless))


#: By Python name. The values beside the reason, such as the default there, are accepted silently.
EXPLAINED: dict[str, Unsupported] = {
    # -- librdkafka: connections and metadata
    "message_max_bytes": _ignored(
        "it limits producers' requests; for responses set `receive_message_max_bytes`", 1000000
    ),
    "message_copy_max_bytes": _ignored("it is about the memory of producers", 65535),
    "topic_metadata_refresh_fast_interval_ms": _ignored(_NO_LEADER, 100),
    "topic_metadata_refresh_fast_cnt": _ignored(_NO_LEADER, 10),
    "topic_metadata_refresh_sparse": _ignored("only metadata of topics in use is requested", True),
    "topic_metadata_propagation_max_ms": _ignored(
        "a missing topic is requested again after `retry_backoff_ms`, for as long as it is wanted", 30000
    ),
    "topic_blacklist": _refused("leave topics out with subscribe(pattern=..., exclude=...)", ""),
    "socket_blocking_max_ms": _ignored(_DEPRECATED, 1000),
    "socket_keepalive_enable": _ignored(
        "add (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1) to `socket_options`, beside TCP_NODELAY", False
    ),
    "socket_nagle_disable": _ignored("TCP_NODELAY is set unless `socket_options` leaves it out", True),
    "socket_max_fails": _ignored("the first request that times out closes its connection", 1),
    "broker_address_ttl": _ignored("a host is looked up again once its known addresses have failed", 1000),
    "broker_address_family": _ignored(
        "addresses of both families are tried; a `resolver` of your own can choose", "any"
    ),
    "reconnect_backoff_jitter_ms": _ignored(_DEPRECATED, 0),
    "api_version_request": _ignored(_VERSIONS, True),
    "api_version_request_timeout_ms": _ignored("`socket_connection_setup_timeout_ms` limits this step, too", 10000),
    "api_version_fallback_ms": _ignored(_VERSIONS, 0),
    "broker_version_fallback": _ignored(_VERSIONS, "0.10.0"),
    # -- librdkafka: the library itself
    "builtin_features": _ignored("what is built in depends on the extras that are installed"),
    "debug": _ignored("call logging.getLogger('thinconsumer').setLevel(logging.DEBUG)", ""),
    "log_level": _ignored(_LOGS, 6),
    "log_cb": _refused(_LOGS),
    "logger": _refused(_LOGS),
    "log_queue": _ignored(_LOGS, False),
    "log_thread_name": _ignored(_NO_THREAD, True),
    "log_connection_close": _ignored(_LOGS, True),
    "statistics_interval_ms": _ignored("call metrics() for the figures, and health() for the state, at any time", 0),
    "stats_cb": _refused("call metrics() for the figures, and health() for the state, at any time"),
    "error_cb": _refused("poll() raises the errors that you can act on; outages are logged, and shown by health()"),
    "throttle_cb": _refused("metrics() has fetch-throttle-time-avg and -max"),
    "enabled_events": _ignored(_NO_THREAD, 0),
    "background_event_cb": _refused(_NO_THREAD),
    "enable_random_seed": _ignored("Python seeds its generator itself", True),
    "internal_termination_signal": _ignored(_NO_THREAD, 0),
    "socket_cb": _refused(_INHERITED),
    "connect_cb": _refused(_IO),
    "closesocket_cb": _refused(_IO),
    "open_cb": _refused(_INHERITED),
    "resolve_cb": _refused("pass `resolver`, which takes (host, port) and returns addresses"),
    "opaque": _refused("callbacks are Python functions, which can keep such a value themselves"),
    "default_topic_conf": _refused("write its options beside the others"),
    "default_topic_config": _refused("write its options beside the others", {}),
    "plugin_library_paths": _refused("libraries in C cannot be loaded", ""),
    "interceptors": _refused("interceptors in C cannot be called: pass `interceptor_classes`", []),
    # -- librdkafka: TLS and logins
    "ssl_key": _refused("give the PEM text as `ssl_keystore_key`"),
    "ssl_certificate": _refused("give the PEM text as `ssl_keystore_certificate_chain`"),
    "ssl_ca": _refused("give the PEM text as `ssl_truststore_certificates`"),
    "ssl_engine_id": _refused("OpenSSL's engines are not supported: pass `ssl_context`", "dynamic"),
    "ssl_certificate_verify_cb": _refused("pass `ssl_context`, which verifies certificates by its own settings"),
    "oauthbearer_token_refresh_cb": _refused("pass `sasl_oauth_token_provider`, which returns tokens"),
    # -- librdkafka: reading
    "queued_min_messages": _ignored("reading ahead is limited in bytes, by `max_buffered_bytes`", 100000),
    "fetch_queue_backoff_ms": _ignored("the next Fetch is sent as soon as the buffer has room for it", 1000),
    "fetch_error_backoff_ms": _ignored("a failed Fetch is repeated after `retry_backoff_ms`", 500),
    "enable_partition_eof": _refused(
        "no poll returns an end of a partition: read_to_end() yields the records up to it, and lag() is 0 there", False
    ),
    "consume_cb": _refused("poll() returns the records"),
    "consume_callback_max_messages": _ignored("poll(max_records=...) limits one call, `max_poll_records` each call", 0),
    # -- librdkafka: groups and offsets
    "group_protocol_type": _refused("it is 'consumer'; a GroupMember may be in groups of other types", "consumer"),
    "coordinator_query_interval_ms": _ignored(
        "the coordinator is looked up again when another broker has become it", 600000
    ),
    "enable_auto_offset_store": _refused(
        "there is no store_offsets(): set `enable_auto_commit` to false, and commit() what is processed", True
    ),
    "offset_store_method": _refused(_COORDINATOR, "broker"),
    "offset_store_path": _ignored(_COORDINATOR, "."),
    "offset_store_sync_interval_ms": _ignored(_COORDINATOR, -1),
    "rebalance_cb": _refused(_LISTENER),
    "on_assign": _refused(_LISTENER),
    "on_revoke": _refused(_LISTENER),
    "on_lost": _refused(_LISTENER),
    "offset_commit_cb": _refused("pass `default_offset_commit_callback`, called with (offsets, response_or_error)"),
    "on_commit": _refused("pass `default_offset_commit_callback`, called with (offsets, response_or_error)"),
    # -- Java 4.4
    "retries": _ignored(
        "requests are repeated until the call's timeout, else for as long as they are needed; see `retry_backoff_ms`"
    ),
    "rebalance_timeout_ms": _ignored("`max_poll_interval_ms` is how long a rebalance waits for this member"),
    "internal_throw_on_fetch_stable_offset_unsupported": _ignored(_INTERNAL, False),
    "sasl_oauthbearer_allow_unverified_audience": _ignored("tokens are checked by brokers only", False),
    "sasl_oauthbearer_allow_unverified_issuer": _ignored("tokens are checked by brokers only", False),
}

#: By the beginning of the name.
EXPLAINED_PREFIXES: dict[str, Unsupported] = {
    "share_": Unsupported(True, "share groups (KIP-932) are not supported", (None, "implicit", "batch_optimized")),
    "default_list_": _refused("it is for Java's list serde: pass `value_deserializer`"),
    **dict.fromkeys(
        (
            "acks", "batch_num_", "batch_size", "buffer_memory", "compression_", "delivery_", "dr_", "enable_gapless",
            "enable_idempotence", "key_serializer", "linger_ms", "max_block_ms", "max_request_size",
            "message_send_", "message_timeout_ms", "metadata_max_idle_ms", "msg_order_cmp", "on_delivery",
            "partitioner", "produce_", "queue_buffering_", "queuing_strategy", "request_required_acks",
            "sticky_partitioning_", "transaction_", "transactional_id", "value_serializer",
        ),
        _refused(_PRODUCERS),
    ),
    **dict.fromkeys(("group_consumer_", "group_max_", "group_min_", "log_", "offsets_"), _refused(_SERVERS)),
}  # fmt: skip

#: Words in the names of other clients' options, and the option here, or the row above, that has the nearest meaning.
NEAREST: dict[str, str] = {
    **dict.fromkeys(("eof", "end"), "enable_partition_eof"),
    **dict.fromkeys(("queue", "queued", "prefetch", "buffered", "memory", "cache", "readahead"), "max_buffered_bytes"),
    **dict.fromkeys(("records", "messages", "batch"), "max_poll_records"),
    **dict.fromkeys(("rebalance", "rejoin", "processing"), "max_poll_interval_ms"),
    **dict.fromkeys(("stats", "statistics", "metrics", "telemetry"), "statistics_interval_ms"),
    **dict.fromkeys(("log", "logs", "logging", "verbose"), "debug"),
    **dict.fromkeys(("broker", "brokers", "host", "hosts", "nodes", "zookeeper", "url"), "bootstrap_servers"),
    **dict.fromkeys(("dns", "resolve", "lookup", "addresses"), "resolver"),
    **dict.fromkeys(("store", "stored"), "enable_auto_offset_store"),
    **dict.fromkeys(("serde", "decoder", "deserialiser", "schema"), "value_deserializer"),
    **dict.fromkeys(("assignor", "assignors", "assignment"), "partition_assignment_strategy"),
    **dict.fromkeys(("transaction", "transactions", "committed", "isolation"), "isolation_level"),
    **dict.fromkeys(("keepalive", "nodelay", "nagle"), "socket_options"),
    **dict.fromkeys(("certificate", "ca", "truststore"), "ssl_truststore_location"),
    **dict.fromkeys(("threads", "workers", "concurrency"), "background_event_cb"),
    **dict.fromkeys(("jwt", "oauth", "token", "tokens"), "sasl_oauth_token_provider"),
}
