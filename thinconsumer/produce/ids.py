"""Gets the producer id with InitProducerId (KIP-98) from any broker, and another one when its epochs are used up.

:mod:`.sequences` holds the id and epoch that each partition uses.
"""

from ..errors import BrokerResponseError, KafkaError
from ..failures import Action, Scope, rule
from ..network.request import ANY_NODE, Answer, Request
from ..support.agenda import Agenda
from ..support.timers import Backoff, Random, Retry
from ..wire import Message
from ..wire.error_codes import to_error
from ..wire.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from .batch import NO_ID
from .settings import ProducerSettings

#: The transaction timeout of a producer without transactions, as Java sends it.
NO_TRANSACTION_TIMEOUT = 2**31 - 1


class ProducerIds:
    """The manager of the producer id. It sends requests only while one is wanted."""

    asker = "producer id"

    def __init__(self, settings: ProducerSettings, random: Random, agenda: Agenda) -> None:
        self._settings = settings
        self._agenda = agenda
        self._retry = Retry(Backoff.from_settings(settings), random, agenda)
        self.producer_id = NO_ID
        self.epoch = -1
        self._wanted = False
        self.final_error: KafkaError | None = None  #: An error that is not retriable; the sender takes it.
        self.last_error: KafkaError | None = None  #: The last attempt's error; None after a success.

    def want(self, wanted: bool) -> None:
        """Say whether a producer id is needed: there are records to send."""
        if self._wanted != wanted:
            self._wanted = wanted
            self._touch()

    def replace(self, producer_id: int) -> None:
        """Request another producer id, unless ``producer_id`` has been replaced already.

        A partition cannot use ``producer_id`` any more: its epochs are used up, or the broker rejects it.
        """
        if self.producer_id == producer_id:
            self.producer_id = NO_ID
            self._touch()

    def _touch(self) -> None:
        if self._is_due() and not self._retry.in_flight:
            self._agenda.touch(self.asker)

    def step(self, now: float) -> list[Request]:
        """Return the request due now, if any."""
        if not self._is_due() or not self._retry.may_send(now):
            return []
        self._retry.sent()
        deadline = now + self._settings.request_timeout_ms / 1000
        return [Request(self.asker, InitProducerIdRequest, ANY_NODE, self._build, deadline)]

    def handle(self, answer: Answer, now: float) -> None:
        """Store the id and epoch of the answer, or its error."""
        response: InitProducerIdResponse | None = answer.response
        error = answer.error
        if response is not None and response.error_code:
            error = to_error(response.error_code, api="InitProducerId", node_id=answer.node_id)
        elif response is not None and (response.producer_id < 0 or response.producer_epoch < 0):
            error = KafkaError(f"broker {answer.node_id} answered InitProducerId with a negative id or epoch")
        if response is None or error is not None:
            self._retry.failed(now)
            self.last_error = error
            if isinstance(error, BrokerResponseError):
                is_final = rule("InitProducerId", error.code, Scope.CONSUMER).action is Action.FAIL
                self.final_error = error if is_final else self.final_error
            return
        self._retry.succeeded()
        self.last_error = None
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch

    def restart(self, now: float) -> None:
        """Forget the request in flight, as its connection was closed; the next step sends another."""
        self._retry.in_flight = False

    def _is_due(self) -> bool:
        return self._wanted and self.producer_id == NO_ID

    def _build(self, version: int) -> Message:
        return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=NO_TRANSACTION_TIMEOUT)
