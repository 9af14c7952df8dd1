"""The options as static type checkers see them (PEP 692).

Made by docs/generate_options.py from the declarations in thinconsumer/config. Do not edit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from .values import DeadLetter, OffsetResetPolicy

if TYPE_CHECKING:
    from pathlib import Path


class ClientKeywords(TypedDict, total=False):
    """The options of every client."""

    bootstrap_servers: str | list[str] | tuple[str, ...]
    client_id: str
    default_api_timeout_ms: int
    metadata_max_age_ms: int
    metadata_recovery_strategy: str
    metadata_recovery_rebootstrap_trigger_ms: int
    metadata_cluster_check_enable: bool
    allow_auto_create_topics: bool
    proxy_url: str | None
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
    ssl_context: Any | None
    ssl_check_hostname: bool
    ssl_endpoint_identification_algorithm: str
    ssl_cafile: str | Path | None
    ssl_certfile: str | Path | None
    ssl_keyfile: str | Path | None
    ssl_password: str | None
    ssl_crlfile: str | Path | None
    ssl_ciphers: str | None
    ssl_cipher_suites: str | list[str] | tuple[str, ...] | None
    ssl_protocol: str
    ssl_enabled_protocols: str | list[str] | tuple[str, ...]
    ssl_truststore_location: str | Path | None
    ssl_truststore_type: str | None
    ssl_truststore_certificates: str | None
    ssl_truststore_password: str | None
    ssl_keystore_location: str | Path | None
    ssl_keystore_type: str | None
    ssl_keystore_password: str | None
    ssl_keystore_key: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_key_password: str | None
    sasl_mechanism: str | None
    sasl_plain_username: str | None
    sasl_plain_password: str | None
    sasl_jaas_config: str | None
    sasl_oauth_token_provider: Any | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_grant_type: str
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | None
    sasl_oauthbearer_assertion_file: str | Path | None
    sasl_oauthbearer_assertion_private_key_file: str | Path | None
    sasl_oauthbearer_assertion_private_key_pem: str | None
    sasl_oauthbearer_assertion_private_key_passphrase: str | None
    sasl_oauthbearer_assertion_algorithm: str
    sasl_oauthbearer_assertion_claim_aud: str | None
    sasl_oauthbearer_assertion_claim_iss: str | None
    sasl_oauthbearer_assertion_claim_sub: str | None
    sasl_oauthbearer_assertion_claim_exp_seconds: int
    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    sasl_oauthbearer_assertion_claim_jti_include: bool
    sasl_oauthbearer_assertion_template_file: str | Path | None
    sasl_oauthbearer_metadata_authentication_type: str
    sasl_oauthbearer_config: str | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_scope_claim_name: str
    sasl_oauthbearer_sub_claim_name: str
    sasl_oauthbearer_header_urlencode: bool
    sasl_oauthbearer_extensions: Mapping[str, str] | None
    sasl_kerberos_service_name: str
    sasl_kerberos_domain_name: str | None
    sasl_kerberos_name: Any | None
    sasl_kerberos_principal: str | None
    sasl_kerberos_keytab: str | Path | None
    sasl_aws_msk_iam_region: str | None
    sasl_aws_msk_iam_profile: str | None
    sasl_aws_msk_iam_role_arn: str | None
    sasl_aws_msk_iam_role_session_name: str | None
    sasl_aws_msk_iam_role_external_id: str | None
    sasl_aws_msk_iam_sts_region: str | None
    sasl_login_connect_timeout_ms: int | None
    sasl_login_read_timeout_ms: int | None
    sasl_login_retry_backoff_ms: int
    sasl_login_retry_backoff_max_ms: int
    sasl_login_refresh_window_factor: float
    sasl_login_refresh_window_jitter: float
    sasl_login_refresh_min_period_seconds: int
    sasl_login_refresh_buffer_seconds: int


class ConsumerOptions(ClientKeywords, total=False):
    """The options of Consumer."""

    bootstrap_timeout_ms: int
    client_dns_lookup: str
    resolver: Callable[..., Any] | None
    enable_metrics_push: bool | None
    exclude_internal_topics: bool
    receive_buffer_bytes: int | None
    send_buffer_bytes: int | None
    socket_options: list[tuple[int, int, int | bytes]] | tuple[tuple[int, int, int | bytes], ...]
    selector: Callable[..., Any] | None
    interceptor_classes: list[Any] | tuple[Any, ...]
    metric_reporters: list[Any] | tuple[Any, ...]
    on_bad_record: str | DeadLetter | Callable[..., Any]
    trace: str
    trace_bytes_max: int
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
    group_remote_assignor: str | None
    partition_assignment_strategy: list[Any] | tuple[Any, ...]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    ordered_delivery: str
    ordered_delivery_grace_ms: int
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    allow_foreign_commits: bool
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
