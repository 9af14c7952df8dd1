"""The producer's options and their checks."""

import importlib.util

import pytest

from thinconsumer.config import ClientOptions
from thinconsumer.errors import KafkaConfigurationError
from thinconsumer.produce import ProducerSettings
from thinconsumer.records.compression import Codec

SNAPPY = importlib.util.find_spec("cramjam") is not None


def test_the_producer_has_every_option_of_a_client():
    assert set(ClientOptions.options()) < set(ProducerSettings.options())


def test_defaults_are_valid():
    settings = ProducerSettings.from_options()
    for name, option in ProducerSettings.options().items():
        assert getattr(settings, name) == option.default
        if option.section == "Writing":
            assert option.kind.parse(option.default) == option.default
            assert option.doc


@pytest.mark.parametrize("codec", [codec for codec in Codec if SNAPPY or codec is not Codec.SNAPPY])
def test_compression_type_takes_kafkas_names(codec):
    settings = ProducerSettings.from_options(compression_type=codec.name.title())
    assert settings.codec is codec


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("compression_type", "zlib", "must be one of"),
        ("compression_type", "gzp", "did you mean 'gzip'"),
        ("delivery_timeout_ms", 0, "at least 1"),
        ("batch_size", "5", "whole number"),
        ("max_request_size", 10, "at least 1024"),
        ("buffer_memory", -1, "at least 1"),
        ("compresion_type", "gzip", "did you mean 'compression_type'"),
        ("acks", "all", "acks is refused"),
        ("transactional_id", "x", "transactional_id is refused"),
        ("security_protocol", "TLS", "must be one of"),
    ],
)
def test_errors_name_the_problem_and_suggest_a_correction(option, value, words):
    with pytest.raises(KafkaConfigurationError, match=words):
        ProducerSettings.from_options(**{option: value})


def test_from_config_takes_dotted_names_and_text():
    settings = ProducerSettings.from_config({"compression.type": "lz4", "batch.size": "1000", "client.id": "me"})
    assert (settings.codec, settings.batch_size, settings.client_id) == (Codec.LZ4, 1000, "me")


@pytest.mark.skipif(SNAPPY, reason="the package for snappy is installed")
def test_a_codec_without_its_package_raises_at_construction():
    with pytest.raises(KafkaConfigurationError, match=r"snappy.*pip install"):
        ProducerSettings.from_options(compression_type="snappy")
