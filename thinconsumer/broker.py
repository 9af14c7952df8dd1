"""The public names of the embedded broker, which the distribution thinconsumer-testing installs."""

from .support.imports import import_testing

import_testing("thinconsumer_testing.broker")

from thinconsumer_testing.broker import *  # noqa: E402, F403
from thinconsumer_testing.broker import __all__ as __all__  # noqa: E402
