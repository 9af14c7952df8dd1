"""Scripts of clients that push their metrics."""

import dataclasses

from thinconsumer.wire import ZERO_UUID
from thinconsumer.wire.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest

from .scripts import script
from .talk import World

ONE = bytes(15) + b"\1"
OTHER = b"client of our own"[:16]


@script
def telemetry_without_subscriptions(world: World) -> None:
    """Ids, order, sizes and codecs of pushes that no one has subscribed to: brokers take them all the same."""
    line = world.connect()
    mine = line.ask(GetTelemetrySubscriptionsRequest(), 0)
    line.ask(GetTelemetrySubscriptionsRequest(client_instance_id=mine.client_instance_id), 0, about="too early")
    push = PushTelemetryRequest(
        client_instance_id=mine.client_instance_id, subscription_id=mine.subscription_id, metrics=b"\n\0"
    )

    def pushed(about: str, **changes: object) -> None:
        line.ask(dataclasses.replace(push, **changes), 0, about=about)

    pushed("of the id 0", client_instance_id=ZERO_UUID)
    pushed("of the id 1", client_instance_id=ONE)
    pushed("of an unknown client", client_instance_id=OTHER)
    line.ask(GetTelemetrySubscriptionsRequest(client_instance_id=OTHER), 0, about="after an unknown subscription")
    pushed("in an unknown codec", compression_type=9)
    line.ask(GetTelemetrySubscriptionsRequest(client_instance_id=push.client_instance_id), 0, about="after that codec")
    pushed("too early")
    pushed("too large, and the last", metrics=bytes((1 << 20) + 1), terminating=True)
    pushed("after the last", terminating=True)
    line.ask(GetTelemetrySubscriptionsRequest(client_instance_id=push.client_instance_id), 0, about="after the last")
