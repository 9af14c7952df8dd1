"""Import modules so that Ctrl-C cannot leave them half imported."""

import importlib
import sys
import threading
from typing import Any


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
