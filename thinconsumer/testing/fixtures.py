"""The pytest fixtures of ``thinconsumer_testing``. To load: ``pytest_plugins = ["thinconsumer.testing.fixtures"]``."""

from thinconsumer_testing.fixtures import *  # noqa: F403
from thinconsumer_testing.fixtures import __all__ as __all__
