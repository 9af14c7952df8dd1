"""One replica's log: batches, producer state, transactions, leader epochs, retention and compaction.

Has no role, followers or clock: ``partition`` decides about appends and the high watermark.
"""
