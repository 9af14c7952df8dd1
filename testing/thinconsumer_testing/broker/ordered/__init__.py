"""Ordered delivery (KIP-253): the partition counts of topics, how the controller changes them, and what is recorded."""
