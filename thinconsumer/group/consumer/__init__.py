"""The consumer group protocol (KIP-848): the coordinator assigns partitions, and each member reconciles by itself."""
