"""DescribeConfigs versions 1 to 4: the configs of topics and of this broker, with their sources (KIP-133, KIP-226).

Follows ``ConfigHelper``. Version 3 adds types, and documentation (always null here). Of a broker's configs only
``node.id``, ``broker.rack`` and those in ``BrokerConfig`` are listed. For broker loggers, client metrics and groups the
response is valid, but lists no configs.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import BY_CODE, Code

from ..acl.bindings import AclOperation, ResourceType
from ..acl.checks import is_authorized, is_authorized_on_cluster
from ..call import Api, ApiCall
from ..config import BrokerConfig
from ..controller import ControllerError
from ..group.consumer.assignors.registry import text_of
from ..naming import topic_name_error
from ..topic_configs import ConfigSource, ConfigSynonym, ConfigType, describe_topic_configs
from ..wire.administration import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32

#: Broker configs that are not described as read-only, because Kafka can change them at run time.
_DYNAMIC = frozenset(("message.max.bytes", "min.insync.replicas", "unclean.leader.election.enable", "max.connections"))
#: Configs of the authorizer, which Kafka's broker only passes on: the broker lists them only if they are set, and hides
#: their values as if they were passwords.
_OF_AUTHORIZER = frozenset(("super.users", "allow.everyone.if.no.acl.found"))
_LONG = frozenset(("replica.lag.time.max.ms",))


def _handle(call: ApiCall) -> Message:
    request: DescribeConfigsRequest = call.request
    if any(resource.resource_type not in _DESCRIBERS for resource in request.resources):
        return _refuse(request, call.version, int(Code.INVALID_REQUEST))
    return DescribeConfigsResponse(results=[_describe(call, resource) for resource in request.resources])


def _refuse(request: DescribeConfigsRequest, version: int, code: int) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_result(one, code, BY_CODE[code].text) for one in request.resources])


def _result(resource: DescribeConfigsResource, code: int = 0, message: str = "") -> DescribeConfigsResult:
    kind, name = resource.resource_type, resource.resource_name
    return DescribeConfigsResult(error_code=code, error_message=message, resource_type=kind, resource_name=name)


def _authorization_error(call: ApiCall, resource: DescribeConfigsResource) -> Code | None:
    kind, name, operation = resource.resource_type, resource.resource_name, AclOperation.DESCRIBE_CONFIGS
    if kind == TOPIC:
        allowed = is_authorized(call, operation, ResourceType.TOPIC, name)
        return None if allowed else Code.TOPIC_AUTHORIZATION_FAILED
    if kind == GROUP:
        allowed = is_authorized(call, operation, ResourceType.GROUP, name)
        return None if allowed else Code.GROUP_AUTHORIZATION_FAILED
    return None if is_authorized_on_cluster(call, operation) else Code.CLUSTER_AUTHORIZATION_FAILED


def _describe(call: ApiCall, resource: DescribeConfigsResource) -> DescribeConfigsResult:
    if (denied := _authorization_error(call, resource)) is not None:
        return _result(resource, int(denied), BY_CODE[denied].text)
    try:
        rows = _DESCRIBERS[resource.resource_type](call, resource.resource_name)
    except ControllerError as error:
        return _result(resource, error.code, error.message)
    requested_names = resource.configuration_keys
    result = _result(resource)
    result.configs = [row for row in rows if not requested_names or row.name in requested_names]
    for row in result.configs:
        if not call.request.include_synonyms:
            row.synonyms = []
    return result


def _topic(call: ApiCall, name: str) -> list[DescribeConfigsResourceResult]:
    illegal = topic_name_error(name)
    if illegal is not None:
        raise ControllerError(Code.INVALID_TOPIC_EXCEPTION, illegal)
    topic = call.node.image.topics.get(name)
    if topic is None:
        raise ControllerError(Code.UNKNOWN_TOPIC_OR_PARTITION, "")  # Kafka sends no text; the entry names the topic
    return [
        _row(entry.setting.name, entry.setting.kind, entry.synonyms, read_only=False, value=entry.value)
        for entry in describe_topic_configs(topic.configs, call.node.config)
    ]


def _broker(call: ApiCall, name: str) -> list[DescribeConfigsResourceResult]:
    config, node = call.node.config, call.node
    if not name:  # an empty broker id requests the cluster-wide dynamic defaults
        value = str(config.min_insync_replicas)
        return [_broker_row("min.insync.replicas", ConfigType.INT, (value, ConfigSource.DYNAMIC_DEFAULT))]
    _check_broker(call, name)
    rows = [_broker_row("node.id", ConfigType.INT, (str(node.node_id), ConfigSource.STATIC))]
    if node.rack is not None:
        rows.append(_broker_row("broker.rack", ConfigType.STRING, (node.rack, ConfigSource.STATIC)))
    defaults = {field.name: field.default for field in dataclasses.fields(BrokerConfig)}
    for own, value in config.settings().items():
        name = own.replace("_", ".")
        if name in _OF_AUTHORIZER:
            if value != defaults[own]:
                rows.append(_hidden_row(name))
        elif own == "group_consumer_assignors":
            rows.append(_broker_field(name, text_of(value), defaults[own]))
        elif not own.endswith("_s"):  # fields with _s configure this simulation; Kafka has no such configs
            rows.append(_broker_field(name, value, defaults[own]))
    return rows


def _hidden_row(name: str) -> DescribeConfigsResourceResult:
    row = _row(name, ConfigType.UNKNOWN, [], read_only=True, value=None)
    row.config_source, row.is_sensitive = int(ConfigSource.STATIC), True
    row.synonyms = [DescribeConfigsSynonym(name=name, value=None, source=row.config_source)]
    return row


def _broker_field(name: str, value: Any, default: Any) -> DescribeConfigsResourceResult:
    kind = ConfigType.BOOLEAN if isinstance(value, bool) else ConfigType.LONG if name in _LONG else ConfigType.INT
    text, usual = (str(one).lower() for one in (value, default))
    if isinstance(value, str):
        kind, text, usual = ConfigType.STRING, value, default
    values = [(text, ConfigSource.DYNAMIC_DEFAULT)] if name == "min.insync.replicas" else []
    if text != usual:
        values.append((text, ConfigSource.STATIC))
    return _broker_row(name, kind, *values, (usual, ConfigSource.DEFAULT))


def _broker_row(name: str, kind: ConfigType, *values: tuple[str, ConfigSource]) -> DescribeConfigsResourceResult:
    synonyms = [ConfigSynonym(name, text, source) for text, source in values]
    return _row(name, kind, synonyms, read_only=name not in _DYNAMIC, value=values[0][0])


def _row(
    name: str, kind: ConfigType, synonyms: Sequence[ConfigSynonym], *, read_only: bool, value: str | None
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=read_only,
        config_source=int(synonyms[0].source if synonyms else ConfigSource.DEFAULT),
        is_sensitive=False,
        synonyms=[DescribeConfigsSynonym(name=n, value=v, source=int(s)) for n, v, s in synonyms],
        config_type=int(kind),
        documentation=None,
    )


def _check_broker(call: ApiCall, name: str) -> None:
    try:
        number = int(name)
    except ValueError:
        raise ControllerError(Code.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}") from None
    if number != call.node.node_id:
        raise ControllerError(
            Code.INVALID_REQUEST, f"Broker {call.node.node_id} can only describe itself, not broker {name}"
        )


def _no_logger_configs(call: ApiCall, name: str) -> list[DescribeConfigsResourceResult]:
    if not name:
        raise ControllerError(Code.INVALID_REQUEST, "Broker id must not be empty")
    _check_broker(call, name)
    return []


def _no_configs(call: ApiCall, name: str) -> list[DescribeConfigsResourceResult]:
    if not name:
        raise ControllerError(Code.INVALID_REQUEST, "The resource name must not be empty")
    return []


_DESCRIBERS: Mapping[int, Callable[[ApiCall, str], list[DescribeConfigsResourceResult]]] = {
    TOPIC: _topic, BROKER: _broker, LOGGER: _no_logger_configs, METRICS: _no_configs, GROUP: _no_configs,
}  # fmt: skip

API = Api(DescribeConfigsRequest, 1, 4, _handle, _refuse)
