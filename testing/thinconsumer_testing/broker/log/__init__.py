"""One replica's log: batches, producer state, transactions, leader epochs, retention and compaction.

A log has no clock and no role: ``partition`` appends to a leader's log, ``replication`` to a follower's. Callers pass
the time and the high watermark.
"""
