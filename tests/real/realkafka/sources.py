"""Where a cluster comes from on this machine, in this order: a given one, containers, jars.

Owns the choice. Starts nothing by itself.
"""

import functools
import os

from . import containers, jars
from .admin import Administration
from .cluster import KafkaCluster

BOOTSTRAP = "THINCONSUMER_TEST_BOOTSTRAP"
#: Before this there was no official image with the layout we count on.
FIRST_IMAGE = (3, 7)


def given_cluster(brokers: int = 1) -> Administration | None:
    """Return the cluster that ``THINCONSUMER_TEST_BOOTSTRAP`` names, if it does and that has so many brokers.

    It can be asked and written to. It is not ours to kill.
    """
    bootstrap = os.environ.get(BOOTSTRAP)
    if not bootstrap:
        return None
    given = Administration(bootstrap)
    return given if len(given.nodes()) >= brokers else None


def new_cluster(version: str = jars.CURRENT, brokers: int = 1, **options) -> KafkaCluster:
    """Return a cluster of our own, not started yet; raise ``NoJars`` when nothing here can run one."""
    has_image = tuple(map(int, version.split(".")[:2])) >= FIRST_IMAGE
    if has_image and _engine_answers():
        start_process = functools.partial(containers.Container, version)
        return KafkaCluster(version, brokers, start_process=start_process, class_path=containers.CLASS_PATH, **options)
    return KafkaCluster(version, brokers, class_path=jars.class_path(version), **options)


_engine_answers = functools.lru_cache(maxsize=1)(containers.engine_answers)
