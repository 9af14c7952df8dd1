"""The transaction coordinator: which transactions there are, where they stand, and how they come to their end.

Knows the node that it lives on by :class:`.host.Host` only. Follows KIP-98, KIP-360, KIP-890 and Kafka 4.3's
``TransactionCoordinator``, ``TransactionStateManager``, ``TransactionMarkerChannelManager``, ``TransactionMetadata``.
"""
