"""The option ``proxy_url``: which URLs are taken, how the others are refused, and that no password is shown."""

import pickle
import traceback
import warnings

import pytest

from thinconsumer.config import ClientOptions, ConsumerConfig
from thinconsumer.config.proxy import Proxy, ProxyUrl
from thinconsumer.errors import KafkaConfigurationError

CANARY = "c4nary"


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("socks5://proxy:1080", ("socks5", "proxy", 1080, None)),
        ("SOCKS5H://Proxy.Example", ("socks5h", "proxy.example", 1080, None)),
        ("http://10.0.0.1", ("http", "10.0.0.1", 80, None)),
        ("http://[::1]:3128/", ("http", "::1", 3128, None)),
        ("socks5://me:secret@proxy:1", ("socks5", "proxy", 1, ("me", "secret"))),
        ("http://a%40b:p%3A%2F%C3%BC@proxy:8080", ("http", "proxy", 8080, ("a@b", "p:/ü"))),
        ("http://token@proxy", ("http", "proxy", 80, ("token", ""))),
        ("http://me:p@ss:word@proxy", ("http", "proxy", 80, ("me", "p@ss:word"))),
        (f"socks5://{'u' * 255}:{'%70' * 255}@proxy", ("socks5", "proxy", 1080, ("u" * 255, "p" * 255))),
        (f"http://u:{'p' * 256}@proxy", ("http", "proxy", 80, ("u", "p" * 256))),
    ],
)
def test_the_parts_of_a_url(url, parts):
    assert Proxy.parse(url) == parts
    assert ProxyUrl().parse(url) == url


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (7, "must be a str, not int"),
        (b"socks5://c4nary@h", "must be a str, not bytes"),
        ("", "must begin with socks5://, socks5h://, http://"),
        ("c4nary", "must begin with socks5://"),
        ("proxy:1080", "must begin with socks5://"),
        ("10.0.0.1:1080", "must begin with socks5://"),
        ("socks4://c4nary@proxy:1080", "must begin with socks5://"),
        ("https://u:c4nary@proxy:443", "TLS to the proxy itself is not supported"),
        ("socks5://", "has no host: write socks5://host:port"),
        ("socks5://:1080", "has no host"),
        ("socks5://u:c4nary@", "has no host"),
        ("socks5://c4nary,x:1080", "has no host"),
        ("socks5://proxy:0", "must have a port from 1 to 65535"),
        ("socks5://u:c4nary@proxy:65536", "a port that is not a number from 1 to 65535"),
        ("socks5://u:c4nary@proxy:port", "a port that is not a number from 1 to 65535"),
        ("socks5://[::1:1080", "is not a URL"),
        ("socks5://u:c4n/ary@proxy:1080", "percent-encode other characters in user and password"),
        ("socks5://u:1/c4nary@proxy:1080", "must end after the port; percent-encode"),
        ("socks5://u:1#c4nary@proxy:1080", "must end after the port; percent-encode"),
        ("socks5://proxy:1080?c4nary", "must end after the port"),
        ("socks5://u:c4nary\u00fc@proxy:1080", "printable ASCII characters without spaces; percent-encode"),
        ("socks5://u:c4nary\n@proxy:1080", "printable ASCII characters without spaces; percent-encode"),
        ("socks5://u:c4nary%FF@proxy", "must have user and password in UTF-8, percent-encoded"),
        ("socks5://@proxy", "has an empty user before the @"),
        ("socks5://:c4nary@proxy", "has an empty user before the @"),
        ("http://u%3Ax:c4nary@proxy", "has a user with a colon"),
        (f"socks5://u:{CANARY * 43}@proxy", "has a user or password of more than 255 bytes"),
        (f"socks5h://{'%C3%BC' * 128}:{CANARY}@proxy", "has a user or password of more than 255 bytes"),
        (f"http://u:{CANARY * 400}@proxy", "at most 2048"),
    ],
)
def test_wrong_urls_are_refused_without_being_shown(url, says):
    with pytest.raises(KafkaConfigurationError) as caught:
        ClientOptions.from_options(proxy_url=url)
    assert says in str(caught.value)
    printed = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert not any(part in printed for part in ("c4n", "ary", "%FF"))


def test_user_and_password_are_never_shown():
    url = f"socks5h://{CANARY}1:{CANARY}2@proxy:1080"
    for config in ConsumerConfig.from_options(proxy_url=url), ConsumerConfig.from_config({"proxy.url": url}):
        shown = [f(x) for f in (repr, str, "{}".format) for x in (config, Proxy.parse(url))]
        shown += [repr(config.proxy_url), repr(pickle.loads(pickle.dumps(config)))]
        assert CANARY not in "".join(shown)
        assert "proxy_url='socks5h://proxy:1080'" in repr(config)
        assert config.proxy_url == pickle.loads(pickle.dumps(config)).proxy_url == url
    assert CANARY not in repr(tuple(Proxy.parse(url)))


def test_who_resolves_names():
    resolves = {scheme: Proxy.parse(f"{scheme}://h").resolves_names for scheme in ("socks5", "socks5h", "http")}
    assert resolves == {"socks5": False, "socks5h": True, "http": True}


def test_kafka_pythons_older_name():
    url = "socks5://proxy:1080"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for given in (
            {"socks5_proxy": url},
            {"proxy_url": None, "socks5_proxy": url},
            {"socks5_proxy": None, "proxy_url": url},
        ):
            assert ConsumerConfig.from_options(**given).proxy_url == url
        assert ConsumerConfig.from_config({"socks5.proxy": url}).proxy_url == url
        assert ConsumerConfig.from_options(socks5_proxy=None).proxy_url is None
    with pytest.raises(KafkaConfigurationError, match="proxy_url and socks5_proxy are the same option: give one"):
        ConsumerConfig.from_options(proxy_url=url, socks5_proxy=url)
    with pytest.raises(KafkaConfigurationError, match=r"unknown option 'socks5_proxy'"):
        ConsumerConfig.from_config({"socks5_proxy": url})
    with pytest.raises(KafkaConfigurationError, match=r"^socks5_proxy='\*\*\*': must begin with socks5"):
        ConsumerConfig.from_options(socks5_proxy=CANARY)
