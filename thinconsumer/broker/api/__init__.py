"""The request handlers: one module per API, each with an :class:`~thinconsumer.broker.call.Api` named ``API``."""
