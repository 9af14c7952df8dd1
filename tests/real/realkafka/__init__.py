"""Real Kafka clusters for tests, benchmarks and examples: where they come from, and what may be done to them.

``new_cluster()`` for one of our own, ``produce`` to write to it with producers of other clients.
"""

from . import produce
from .admin import Administration, wait_for
from .cluster import KafkaCluster
from .jars import CURRENT, OLD, NoJars
from .sources import given_cluster, new_cluster

__all__ = [
    "CURRENT",
    "OLD",
    "Administration",
    "KafkaCluster",
    "NoJars",
    "given_cluster",
    "new_cluster",
    "produce",
    "wait_for",
]
