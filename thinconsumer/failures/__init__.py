"""What a failure means and how it is reported: the error policy of every API, and the log lines of an outage.

Owns no state of a connection, partition or group: it says what to do, and other rooms do it.
"""

from .outages import OutageLog

__all__ = ["OutageLog"]
