"""Order by key while partitions are added and deleted (KIP-253): which partitions are held, and until when.

docs/ordered-delivery.md describes the mechanism.
"""
