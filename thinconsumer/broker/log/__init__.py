"""One replica's log: batches, producer state, transactions, leader epochs, retention and compaction.

Must not know roles, followers or clocks: ``partition`` decides about appends and the high watermark.
"""
