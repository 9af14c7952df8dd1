"""One replica's log: batches, producer state, transactions, leader epochs, retention and compaction.

A log has no clock and does not distinguish leaders from followers: ``partition`` appends to it, and computes the high
watermark.
"""
