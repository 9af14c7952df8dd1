"""Every API that the broker supports, by API key. Each is defined as an ``Api`` in a module of ``api/``."""

from collections.abc import Mapping
from types import MappingProxyType

from .api import (
    acls,
    api_versions,
    consumer_group_positions,
    consumer_groups,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    fetch,
    find_coordinator,
    groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    partition_leader_epochs,
    produce,
    sasl,
    scram_credentials,
    telemetry,
    transactions,
    txn_offset_commit,
)
from .call import Api

_MODULES = (
    produce, fetch, list_offsets, metadata, offset_commit, offset_delete, offset_fetch, find_coordinator, api_versions,
    create_topics, delete_topics, delete_records, offset_for_leader_epoch, txn_offset_commit, describe_configs,
    create_partitions, describe_cluster, partition_leader_epochs, consumer_group_positions,
)  # fmt: skip
_APIS = (
    *(module.API for module in _MODULES),
    *groups.APIS,
    *consumer_groups.APIS,
    *transactions.APIS,
    *acls.APIS,
    *sasl.APIS,
    *scram_credentials.APIS,
    *telemetry.APIS,
)

#: The supported APIs by API key; ApiVersions lists them.
APIS: Mapping[int, Api] = MappingProxyType({api.request.API_KEY: api for api in _APIS})
