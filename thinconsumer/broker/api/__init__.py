"""Request handlers: each module has one :class:`~thinconsumer.broker.call.Api` in ``API``, or several in ``APIS``."""
