"""What a failure means and how it is reported: the error policy of every API, and the log lines of an outage.

Owns no state of a connection, partition or group: it says what to do, and other rooms do it.
"""

from .outages import GRACE, OutageLog
from .policy import EXPULSIONS, IN_DOUBT, Action, Rule, Scope, Told, rule, waits_for_user

__all__ = [
    "EXPULSIONS",
    "GRACE",
    "IN_DOUBT",
    "Action",
    "OutageLog",
    "Rule",
    "Scope",
    "Told",
    "rule",
    "waits_for_user",
]
