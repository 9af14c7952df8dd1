"""The action for each error code of each API, and the rate-limited logging of outages.

This package has no state of connections, partitions or groups: it returns an action, and its callers perform it.
"""

from .outages import GRACE, OutageLog
from .policy import CLASSIC_ONLY, EXPULSIONS, IN_DOUBT, Action, Rule, Scope, Told, rule, waits_for_user

__all__ = [
    "CLASSIC_ONLY", "EXPULSIONS", "GRACE", "IN_DOUBT", "Action", "OutageLog", "Rule", "Scope", "Told", "rule",
    "waits_for_user",
]  # fmt: skip
