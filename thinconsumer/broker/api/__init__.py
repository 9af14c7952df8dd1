"""What the broker answers: one module per API, each with an :class:`~thinconsumer.broker.call.Api` named ``API``."""
