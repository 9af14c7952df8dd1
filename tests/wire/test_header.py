"""Request and response headers, byte by byte, with their two exceptions."""

import pytest

from thinconsumer.errors import IllegalArgumentError, KafkaProtocolError
from thinconsumer.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse
from thinconsumer.wire.header import decode_response_header, encode_request
from thinconsumer.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from thinconsumer_testing.broker.wire.requests import decode_request_header, encode_response

BODY = HeartbeatRequest(group_id="g")


def test_request_header_version_1() -> None:
    frame = encode_request(BODY, 3, 5, "me")
    assert frame == b"\0\x0c\0\3\0\0\0\5\0\2me" + BODY.encode(3)
    assert decode_request_header(frame) == (12, 3, 5, "me", 12)


def test_request_header_version_2_keeps_the_old_encoding_of_the_client_id() -> None:
    """The client id is not compact, so that every broker can read it."""
    frame = encode_request(BODY, 4, 5, "me")
    assert frame == b"\0\x0c\0\4\0\0\0\5\0\2me\0" + BODY.encode(4)
    assert decode_request_header(frame) == (12, 4, 5, "me", 13)


def test_client_id_may_be_null() -> None:
    frame = encode_request(BODY, 3, 2**31 - 1, None)
    assert frame[:10] == b"\0\x0c\0\3\x7f\xff\xff\xff\xff\xff"
    assert decode_request_header(frame) == (12, 3, 2**31 - 1, None, 10)


def test_response_header_versions() -> None:
    body = HeartbeatResponse(error_code=27)
    assert encode_response(body, 3, 9) == b"\0\0\0\x09" + body.encode(3)
    assert encode_response(body, 4, 9) == b"\0\0\0\x09\0" + body.encode(4)
    assert decode_response_header(encode_response(body, 3, 9), HeartbeatRequest, 3) == (9, 4)
    assert decode_response_header(encode_response(body, 4, 9), HeartbeatRequest, 4) == (9, 5)


def test_api_versions_responses_always_have_header_version_0() -> None:
    """The client does not know the broker's versions yet."""
    for version in range(6):
        frame = encode_response(ApiVersionsResponse(), version, 1)
        assert frame[4:] == ApiVersionsResponse().encode(version)
        assert decode_response_header(frame, ApiVersionsRequest, version) == (1, 4)


def test_unknown_tagged_fields_in_headers_are_skipped() -> None:
    header = b"\0\x0c\0\4\0\0\0\5\0\2me\2\0\1x\7\0"
    assert decode_request_header(header + BODY.encode(4)).body_offset == len(header)
    header = b"\0\0\0\5\1\xac\x02\3xyz"
    for kind in (bytes, bytearray, memoryview):
        assert decode_response_header(kind(header + b"\0"), HeartbeatRequest, 4) == (5, len(header))


def test_the_header_of_an_unsupported_version_is_readable() -> None:
    """A broker needs the correlation id to reject the request."""
    assert decode_request_header(b"\0\x12\0\x63\0\0\0\5\0\2me\0") == (18, 99, 5, "me", 13)


@pytest.mark.parametrize(
    "frame",
    [
        b"\0\x0c\0\4\0\0\0\5\0\2me",  # no tagged fields
        b"\0\x0c\0\4\0\0\0\5\0\2me\1",  # one tagged field claimed, none present
        b"\0\x0c\0\4\0\0\0\5\0\2me\xff\xff\xff\xff\x0f",
        b"\0\x0c\0\4\0\0\0\5\0\3me",  # a client id that is cut off
        b"\0\x0c\0\3\0\0\0\5\0\3me",  # the same in a header without tagged fields
        b"\0\x0c\0\3\0\0\0\5\xff\xfe",
        b"\0\x0c\0\4\0\0\0\5\xff\xfe",  # a client id of negative length
        b"\0\x0c\0\4\0\0\0\5\0\2\xff\xff\0",  # a client id that is not UTF-8
        b"\x7f\x0c\0\4\0\0\0\5\0\2me\0",  # no such API
        b"\0\x0c\0\4\0\0\0\5\0",
        b"",
    ],
)
def test_malformed_request_headers_are_rejected(frame: bytes) -> None:
    with pytest.raises(KafkaProtocolError):
        decode_request_header(frame)


@pytest.mark.parametrize("frame", [b"", b"\0\0\0", b"\0\0\0\1", b"\0\0\0\1\1\0", b"\0\0\0\1\xff\xff\xff\xff\xff\xff"])
def test_malformed_response_headers_are_rejected(frame: bytes) -> None:
    with pytest.raises(KafkaProtocolError):
        decode_response_header(frame, HeartbeatRequest, 4)


@pytest.mark.parametrize(("correlation_id", "client_id"), [(2**31, "a"), (1, "x" * 32768), (1, "\ud800")])
def test_headers_with_values_out_of_range_raise_illegal_argument_error(correlation_id: int, client_id: str) -> None:
    with pytest.raises(IllegalArgumentError):
        encode_request(BODY, 3, correlation_id, client_id)
