"""The public names of ``thinconsumer_testing``, which the distribution thinconsumer-testing installs."""

from typing import TYPE_CHECKING, Any

from ..support.imports import import_testing

_testing = import_testing("thinconsumer_testing")

from thinconsumer_testing import __all__ as __all__  # noqa: E402

if TYPE_CHECKING:
    from thinconsumer_testing import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return getattr(_testing, name)  # some are imported only when they are first used
