"""The request handlers: modules with one :class:`~thinconsumer.broker.call.Api` as ``API``, or several as ``APIS``."""
