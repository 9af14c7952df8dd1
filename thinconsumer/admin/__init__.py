"""A small admin client, internal: topics and groups, for the command line and tests.

::

    settings = ClientOptions.from_options(bootstrap_servers="localhost:9092")
    with Admin(settings, driver=driver) as admin:
        admin.create_topics({"orders": NewTopic(6, 3, configs={"retention.ms": "60000"})})

The driver passed in does the I/O and has the clock and the randomness.

Every call returns within ``default_api_timeout_ms`` (``list_topics``: ``timeout_ms``, if given). A call on several keys
(topics or groups) returns each key's result, or its typed error *as a value*. After a retriable error (NOT_CONTROLLER,
NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, lost connections...) the request is repeated until the timeout; a key
without a result by then gets a ``KafkaTimeoutError`` that names the obstacle or the last error. If a response was lost,
the broker may have executed the request before it is repeated; if the repeated request then fails for good, the error's
text mentions the lost response.

Not supported: deleting records, changing configs, ACLs, quotas, reassignments. After Java's ``KafkaAdminClient``.
"""

from ..config import ClientOptions
from .admin import Admin
from .operations import (
    CLASSIC,
    CONSUMER,
    CreatedTopic,
    GroupDescription,
    GroupListing,
    GroupListings,
    MemberDescription,
    NewTopic,
    TopicDescription,
)

__all__ = [
    "CLASSIC",
    "CONSUMER",
    "Admin",
    "ClientOptions",
    "CreatedTopic",
    "GroupDescription",
    "GroupListing",
    "GroupListings",
    "MemberDescription",
    "NewTopic",
    "TopicDescription",
]
