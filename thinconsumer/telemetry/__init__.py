"""Push the consumer's metrics to brokers, which pass them on to a plugin of the operator's (KIP-714)."""
