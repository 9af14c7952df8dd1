"""Metrics of consumers and spans of records for OpenTelemetry; see docs/observability.md.

It needs ``pip install 'thinconsumer[opentelemetry]'``.
"""

try:
    import opentelemetry.instrumentation.instrumentor  # noqa: F401 - for a better error
except ImportError as exc:
    raise ImportError(
        f"thinconsumer.opentelemetry needs opentelemetry-instrumentation ({exc}): "
        "pip install 'thinconsumer[opentelemetry]'"
    ) from exc

from .instrumentor import ThinconsumerInstrumentor
from .instruments import ConsumerInstruments
from .processing import processing

__all__ = ["ConsumerInstruments", "ThinconsumerInstrumentor", "processing"]
