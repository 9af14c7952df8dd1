"""Map the responses to a member's requests to actions, by the table of :mod:`thinconsumer.failures.policy`."""

from typing import Any

from ..errors import BrokerResponseError, KafkaError
from ..failures import CLASSIC_ONLY, Action, Scope, rule
from ..network.negotiate import api_name
from ..network.request import Answer
from ..wire.error_codes import Code, to_error

#: How many characters of a broker's error message are shown.
MESSAGE_MAX = 500


def judge(
    answer: Answer, group_id: str, row: Any = None, scope: Scope = Scope.GROUP
) -> tuple[Action, KafkaError | None]:
    """Return the action for a response, and its error. Without a response, the action is to find the coordinator.

    ``row`` is the part of the response that has the error code, if the response itself has none.
    """
    row = answer.response if row is None else row
    api, error = api_name(answer.request.api), answer.error
    if error is None and row.error_code != Code.NONE:
        code = row.error_code
        message = (getattr(row, "error_message", None) or "")[:MESSAGE_MAX]
        detail = ": ".join(filter(None, (f"group {group_id}", message)))
        error = to_error(code, api=api, node_id=answer.node_id, group_id=group_id, detail=detail)
    if isinstance(error, BrokerResponseError):
        return rule(api, error.code, scope).action, error
    return Action.ACCEPT if error is None else Action.FIND_COORDINATOR, error


def lacks_consumer_protocol(answer: Answer, group_id: str) -> KafkaError | None:
    """Return the error if the response shows that this group cannot use the consumer group protocol; else None."""
    _, error = judge(answer, group_id)
    return error if isinstance(error, BrokerResponseError) and error.code in CLASSIC_ONLY else None
