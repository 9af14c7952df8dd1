"""Ordered delivery (KIP-253): the partition counts of topics, and how the controller changes and stores them."""
