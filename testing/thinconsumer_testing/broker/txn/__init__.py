"""The transaction coordinator: transactional ids, the states of their transactions, and transaction markers.

Follows KIP-98, KIP-360, KIP-890 and Kafka 4.3's ``TransactionCoordinator``, ``TransactionStateManager``,
``TransactionMarkerChannelManager`` and ``TransactionMetadata``.
"""
