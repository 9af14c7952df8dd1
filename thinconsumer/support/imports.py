"""Import modules so that Ctrl-C cannot leave them half imported, and numpy so that its threads do not spin.

Also tells which packages are installed, and what variables the environment has.
"""

import importlib
import os
import sys
import threading
from importlib.machinery import PathFinder
from typing import Any

#: An environment variable that OpenBLAS reads when it is loaded: with the value n, its threads sleep after 2^n clock
#: cycles without work. By default, n is 26 or 28.
TIMEOUT_VARIABLE, TIMEOUT = "OPENBLAS_THREAD_TIMEOUT", "20"

#: The package of the distribution thinconsumer-testing.
TESTING = "thinconsumer_testing"


def variable(name: str) -> str:
    """Return an environment variable, empty if it is not set."""
    return os.environ.get(name, "")


def import_uninterrupted(name: str) -> Any:
    """Import a module in a thread of its own, wait for it, and return it.

    Python runs signal handlers in the main thread only, so a KeyboardInterrupt ends the wait but not the import. An
    interrupted import of numpy cannot be repeated: its C extension can be loaded only once in a process. After an
    interrupted import of ``email``, which crc32c needs, one of its modules may be missing until the process ends.

    Raises:
        ImportError: the module, or another one that it imports, is missing.
    """
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        return module
    raised: list[BaseException] = []

    def load() -> None:
        try:
            importlib.import_module(name)
        except BaseException as error:  # noqa: BLE001 - raised below, in the thread that waits
            raised.append(error)

    thread = threading.Thread(target=load, name=f"import {name}")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return sys.modules[name]


def has_package(name: str) -> bool:
    """Return whether a package is installed, without importing it or the packages that it is in."""
    found, path = None, None
    for end in range(1, name.count(".") + 2):
        found = PathFinder.find_spec(".".join(name.split(".")[:end]), path)
        if found is None:
            return False
        # A list: the locations of a namespace package look for its parent among the imported modules.
        path = list(found.submodule_search_locations or ())
    return True


def import_with_numpy(name: str) -> Any:
    """Import a module that needs numpy, as :func:`import_uninterrupted`.

    numpy brings OpenBLAS, a library for linear algebra, which starts a thread for each processor when it is loaded.
    Before these threads sleep, they spin: that takes a tenth of a second of CPU time, on processors that the broker may
    need. If this call is the first to import numpy, it sets OPENBLAS_THREAD_TIMEOUT meanwhile, unless that is set
    already: the threads then sleep after less than a millisecond, also when the program uses numpy for linear algebra
    later.
    """
    if "numpy" in sys.modules or TIMEOUT_VARIABLE in os.environ:
        return import_uninterrupted(name)
    os.environ[TIMEOUT_VARIABLE] = TIMEOUT
    try:
        return import_uninterrupted(name)
    finally:
        # Child processes would inherit the variable. A different value stays: another thread has set it meanwhile.
        if os.environ.get(TIMEOUT_VARIABLE) == TIMEOUT:
            del os.environ[TIMEOUT_VARIABLE]


def import_testing(name: str) -> Any:
    """Import a module of ``thinconsumer_testing`` and return it.

    Raises:
        ImportError: the distribution thinconsumer-testing is not installed. The message has the command that installs
            it, and the error's ``name`` is ``thinconsumer_testing``, whatever module was to be imported.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != TESTING:
            raise
        raise ImportError(f"{name} is not installed: pip install thinconsumer-testing", name=TESTING) from None
