"""The broker's request handlers, one module per API or family of APIs.

Each module has one :class:`~thinconsumer_testing.broker.call.Api` (request type, versions, handler) in ``API``, or
several in ``APIS``.
"""
