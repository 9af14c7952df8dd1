"""One replica's log: batches, producer state, transactions, leader epochs, retention and compaction.

A log has no clock, and is the same on leaders and followers: ``partition`` appends to the log, passes the time, and
computes the high watermark.
"""
