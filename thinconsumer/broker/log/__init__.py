"""One replica's log: batches, what producers and transactions have done in them, leader epochs, and how they go.

Pure data: knows no roles, no followers and no clock; ``partition`` decides who may append and what is committed.
"""
