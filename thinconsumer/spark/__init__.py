"""Kafka for PySpark. What is decided here is decided by pure functions: ``options``, ``offsets``, ``planner``."""
