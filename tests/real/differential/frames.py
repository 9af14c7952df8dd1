"""Scripts of frames that no good client sends: too long, too short, of nothing that is known."""

from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.header import encode_request
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.metadata import MetadataRequest

from .scripts import script
from .talk import World

MANY = 2**31 - 1


def framed(data: bytes, size: int | None = None) -> bytes:
    return (len(data) if size is None else size).to_bytes(4, "big", signed=True) + data


@script
def frames_that_go_on(world: World) -> None:
    """Bytes after the request are not minded."""
    for version in (0, 4):
        line = world.connect()
        request = HeartbeatRequest(group_id="", generation_id=1, member_id="m")
        line.write(framed(encode_request(request, version, 1, "x") + b"and more"))
        world.note(f"too long {version}", line.frame(5))
        line.write(framed(encode_request(request, version, 2, "x")))
        world.note("and then", line.frame(5))


@script
def frames_that_end_early(world: World) -> None:
    """A request that is cut off anywhere ends the connection."""
    whole = encode_request(MetadataRequest(topics=[], allow_auto_topic_creation=False), 9, 1, "x")
    for size in range(1, len(whole)):
        line = world.connect()
        line.write(framed(whole[:size]))
        world.note(f"{size} of {len(whole)} bytes", line.frame(5))


@script
def frames_of_nothing(world: World) -> None:
    """Sizes, APIs and versions that are not, and fields that lie.

    Not compared: any negative length stands for null in Kafka, and -1 alone does here.
    """
    head = encode_request(ApiVersionsRequest(), 0, 1, "x")
    names = encode_request(MetadataRequest(topics=[]), 1, 1, "x")
    cases = {
        "size 0": framed(b""),
        "size -1": framed(b"", -1),
        "size above the limit": framed(b"", 104_857_601),
        "unknown api": framed((999).to_bytes(2, "big") + head[2:]),
        "negative api": framed(b"\xff\xff" + head[2:]),
        "negative version": framed(head[:2] + b"\xff\xff" + head[4:]),
        "metadata 99": framed(names[:2] + (99).to_bytes(2, "big") + names[4:]),
        "produce 2": framed(b"\0\0\0\2" + head[4:]),
        "client id is not there": framed(head[:8] + b"\x7f\xff"),
        "a long list": framed(names[:-4] + MANY.to_bytes(4, "big")),
        "a request for brokers": framed((4).to_bytes(2, "big") + head[2:]),
    }
    for what, data in cases.items():
        line = world.connect()
        line.write(data)
        world.note(what, line.frame(5))
    line = world.connect()
    line.write(framed(head[:8] + b"\xff\xff"))
    world.note("no client id", line.frame(5) is not None)
    line.write(framed(head[:4] + (7).to_bytes(4, "big") + b"\0\0"))
    world.note("an empty one", line.frame(5) is not None)
