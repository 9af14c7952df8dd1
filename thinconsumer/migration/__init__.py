"""Says what to change in a program that uses kafka-python, confluent-kafka or aiokafka.

:func:`scan` reads the text of a Python module, and runs nothing of it.
"""

from .scan import Finding, scan

__all__ = ["Finding", "scan"]
