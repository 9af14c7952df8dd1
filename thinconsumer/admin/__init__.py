"""A small admin client: topics, records and groups, for simulation, the command line and tests. Internal.

::

    settings = ClientOptions.from_options(bootstrap_servers="localhost:9092")
    with Admin(settings, driver=driver) as admin:
        admin.create_topics({"orders": NewTopic(6, 3, configs={"retention.ms": "60000"})})

Sans-IO below :class:`Admin`: a driver that is passed in does the I/O and has the clock and the randomness.

What is promised: every call returns within its ``timeout_ms``. Whatever is asked about several things answers for each:
with its result, or with a typed error *as a value*; what has no answer in time has a ``KafkaTimeoutError`` with the
last error met. Errors that pass (NOT_CONTROLLER, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, no leader, lost
connections...) are waited out. An attempt whose answer was lost is repeated, so that its effect may show as the error
of the next one; such errors say so.

Not there: configs, ACLs, quotas, reassignments. After Java's ``KafkaAdminClient``.
"""

from ..client import ClientOptions
from .admin import Admin
from .results import (
    CreatedTopic,
    GroupDescription,
    GroupListing,
    GroupMember,
    GroupsListed,
    NewTopic,
    TopicDescription,
)

__all__ = [
    "Admin",
    "ClientOptions",
    "CreatedTopic",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupsListed",
    "NewTopic",
    "TopicDescription",
]
