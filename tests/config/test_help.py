"""``help(Consumer)`` lists every option."""

import inspect
import pydoc

from thinconsumer import Consumer
from thinconsumer.config import OPTIONS


def test_help_lists_every_option():
    text = " ".join(inspect.getdoc(Consumer).split())
    assert text.startswith("A Kafka consumer without threads")
    for name, option in OPTIONS.items():
        assert f" {name} ({option.kind.describe()}; default " in text
        assert f"): {option.doc}" in text
    assert "Options:" in pydoc.render_doc(Consumer)
