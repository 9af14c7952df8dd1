"""The public Consumer, and the shell between it and the engine.

``consumer`` is what users call, ``shell`` steps engine and driver within one call, ``iteration`` hands out one by one.
"""

from .consumer import Consumer

__all__ = ["Consumer"]
