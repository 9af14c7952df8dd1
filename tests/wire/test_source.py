"""The minimum sizes with which counts are checked, and generated source."""

import pytest

from thinconsumer.wire.api_versions import ApiVersion
from thinconsumer.wire.fetch import FetchResponse, PartitionData
from thinconsumer.wire.metadata import MetadataResponseBroker, MetadataResponsePartition
from thinconsumer.wire.schema import Primitive, Struct, binary, int64, string, uuid
from thinconsumer.wire.source import CodecSource, min_size


@pytest.mark.parametrize(
    ("of", "version", "flexible", "size"),
    [
        (int64, 0, False, 8),
        (uuid, 0, True, 16),
        (string, 0, False, 2),
        (string, 0, True, 1),
        (binary, 0, False, 4),
        (ApiVersion, 0, False, 6),
        (ApiVersion, 3, True, 7),
        (MetadataResponseBroker, 0, False, 4 + 2 + 4),
        (MetadataResponseBroker, 9, True, 4 + 1 + 4 + 1 + 1),
        (MetadataResponsePartition, 7, False, 2 + 4 + 4 + 4 + 4 + 4 + 4),
        (PartitionData, 0, False, 4 + 2 + 8 + 4),
        (PartitionData, 12, True, 4 + 2 + 8 + 8 + 8 + 1 + 4 + 1 + 1),
    ],
)
def test_minimum_sizes(of: Primitive[object] | type[Struct], version: int, flexible: bool, size: int) -> None:
    assert min_size(of, version, flexible) == size


def test_the_minimum_size_is_that_of_an_empty_message() -> None:
    """Otherwise valid counts could be rejected, or wrong ones accepted."""
    assert len(FetchResponse().encode(13)) == min_size(FetchResponse, 13, True)


def test_equal_formats_share_one_struct() -> None:
    source = CodecSource(0, False, "def f():", {}, "pack")
    assert source.packer("ih") == source.packer("ih") != source.packer("ihq")
