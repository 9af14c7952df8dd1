"""The options as this room names them are the options there are."""

from __future__ import annotations

import inspect

import pytest

from thinconsumer import metadata
from thinconsumer.config import ConsumerConfig
from thinconsumer.fetch import settings


@pytest.mark.parametrize("protocol", [settings.FetchSettings, metadata.MetadataSettings], ids=["fetch", "metadata"])
def test_the_configuration_has_every_option_that_is_read(protocol):
    config = ConsumerConfig.from_options()
    names = [name for name, member in inspect.getmembers(protocol) if isinstance(member, property)]
    assert names
    for name in names:
        assert type(getattr(config, name)) in (int, bool, str), name
