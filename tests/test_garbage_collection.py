"""Pausing garbage collection."""

import gc

import pytest

from thinconsumer.garbage_collection import garbage_collection_paused


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collection_is_paused_and_then_as_before(enabled):
    seen = []

    @garbage_collection_paused
    def build(error=None):
        seen.append(gc.isenabled())
        if error is not None:
            raise error
        return 5

    try:
        if not enabled:
            gc.disable()
        assert build() == 5 and gc.isenabled() is enabled
        with pytest.raises(KeyboardInterrupt):
            build(KeyboardInterrupt())
        assert gc.isenabled() is enabled and seen == [False, False]
    finally:
        gc.enable()
