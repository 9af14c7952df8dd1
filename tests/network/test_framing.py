"""Frames: cut right however bytes come, bounded whatever sizes claim, and never written to again."""

import random
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.errors import KafkaProtocolError
from thinconsumer.network.framing import FIRST_BYTES, KEPT_BYTES, SHARED_BYTES, Frames

LIMIT = 100_000_000


def put(frames, data, cuts=None):
    """Feed bytes in pieces of the given sizes (then as much as fits); return the frames that came out."""
    out, left, cuts = [], memoryview(data), iter(cuts or ())
    while left:
        buffer = frames.buffer()
        assert len(buffer) > 0
        size = min(len(buffer), len(left), max(1, next(cuts, len(left))))
        buffer[:size] = left[:size]
        left = left[size:]
        out += frames.received(size)
    return out


def stream(bodies):
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def bodies_of(*sizes):
    return [bytes([65 + i % 26]) * size for i, size in enumerate(sizes)]


#: Around every boundary there is: least, shared buffer, first allocation, doubled.
SIZES = [4, 5, 1000, SHARED_BYTES - 5, SHARED_BYTES - 4, SHARED_BYTES - 3, SHARED_BYTES, FIRST_BYTES - 1, FIRST_BYTES]
SIZES += [FIRST_BYTES + 1, 2 * FIRST_BYTES, 5 * FIRST_BYTES + 3]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("lead", [0, 7])
def test_a_frame_of_any_size_and_the_next_one_are_yielded_whole(size, lead):
    """Whole, and with the next frame's beginning behind it."""
    bodies = bodies_of(*([lead] if lead else []), size, 9, size)
    assert [bytes(frame) for frame in put(Frames(LIMIT), stream(bodies))] == bodies


@settings(max_examples=60)
@given(
    sizes=st.lists(st.one_of(st.integers(4, 300), st.sampled_from(SIZES[:7])), max_size=8),
    cuts=st.lists(st.integers(1, 70_000), max_size=40),
)
def test_frames_are_the_same_however_the_bytes_are_split(sizes, cuts):
    bodies = bodies_of(*sizes)
    assert [bytes(frame) for frame in put(Frames(LIMIT), stream(bodies), cuts)] == bodies


def test_a_yielded_frame_is_not_overwritten():
    frames = Frames(LIMIT)
    small, large = put(frames, stream([b"small frame", b"L" * 3 * SHARED_BYTES]))
    put(frames, stream([b"x" * 60_000, b"y" * 3 * SHARED_BYTES, b"z" * 60_000]))
    assert small == b"small frame"
    assert bytes(large) == b"L" * 3 * SHARED_BYTES
    with pytest.raises(TypeError):
        memoryview(large)[0] = 0


def test_a_large_body_is_received_into_its_own_buffer():
    """After its size is known nothing of it passes through the shared buffer: it is copied once."""
    frames = Frames(LIMIT)
    size = FIRST_BYTES
    put(frames, size.to_bytes(4, "big"))
    buffer = frames.buffer()
    assert len(buffer) == size
    buffer[:] = b"b" * size
    (frame,) = frames.received(size)
    assert frame.obj is buffer.obj


def test_a_body_is_allocated_at_once_up_to_the_size_of_the_largest_frame_so_far():
    """Doubled buffers would be copied again and again, for each large response."""
    frames, size = Frames(LIMIT), 4 * FIRST_BYTES
    for least in (FIRST_BYTES, size):
        kept = put(frames, size.to_bytes(4, "big"))
        assert len(frames.buffer()) == least
        kept += put(frames, b"b" * size)
        assert len(kept[0]) == size


def test_a_body_without_slices_is_used_for_the_next_large_frame():
    """Fresh memory costs as much as receiving does."""
    frames = Frames(LIMIT)
    (frame,) = put(frames, stream([b"a" * 300_000]))
    body = frame.obj
    del frame
    for size in (300_000, 240_000, 299_999):
        (frame,) = put(frames, stream([b"b" * size]))
        assert frame.obj is body and bytes(frame) == b"b" * size
        del frame
    for size in (300_001, 200_000):  # too large for it; so small that far more would be held than is counted
        (frame,) = put(frames, stream([b"c" * size]))
        assert frame.obj is not body and bytes(frame) == b"c" * size
        assert len(frame.obj) == size


@pytest.mark.parametrize("hold", [lambda frame: frame[7:9], lambda frame: memoryview(frame)[:0], lambda frame: frame])
def test_a_body_is_not_used_again_while_a_slice_of_it_exists(hold):
    frames = Frames(LIMIT)
    (frame,) = put(frames, stream([b"a" * 300_000]))
    body, held = frame.obj, hold(frame)
    del frame
    before = bytes(held)
    for _ in range(4):
        (frame,) = put(frames, stream([b"b" * 300_000]))
        assert frame.obj is not body
        del frame
    assert bytes(held) == before and bytes(body) == b"a" * 300_000


def test_a_body_is_not_used_again_while_an_array_over_it_exists():
    np = pytest.importorskip("numpy")
    frames = Frames(LIMIT)
    (frame,) = put(frames, stream([b"a" * 300_000]))
    array = np.frombuffer(frame, np.uint8)[10:20]
    del frame
    put(frames, stream([b"b" * 300_000]))
    put(frames, stream([b"b" * 300_000]))
    assert array.tobytes() == b"a" * 10


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.integers(SHARED_BYTES, SHARED_BYTES + 40), st.integers(0, 5)), max_size=25),
    st.lists(st.integers(1, 150_000), max_size=40),
)
def test_slices_that_are_kept_for_any_time_keep_their_content(frames_held, cuts):
    """Frames come back to back, and each is held until so many more have come: the next one is not received into it."""
    frames, held, number = Frames(LIMIT), [], 0
    bodies = [bytes([number]) * size for number, (size, _) in enumerate(frames_held)]
    left, cuts = memoryview(stream(bodies)), iter(cuts)
    while left:
        buffer = frames.buffer()
        assert len(buffer) > 0
        size = min(len(buffer), len(left), next(cuts, len(left)))
        buffer[:size] = left[:size]
        left = left[size:]
        del buffer
        for frame in frames.received(size):
            held.append((number + frames_held[number][1], bodies[number], frame))
            number += 1
        assert all(bytes(frame) == content for _, content, frame in held)
        held = [entry for entry in held if entry[0] > number]
        frame = None
    assert number == len(bodies)


def test_large_bodies_are_not_kept():
    """A connection that has nothing to do any more holds two bodies, and none of those that were larger still."""
    frames = Frames(LIMIT)
    put(frames, stream([b"first"]))
    tracemalloc.start()
    for size in (KEPT_BYTES + 1, 8 * KEPT_BYTES, KEPT_BYTES + 1):
        held = put(frames, stream([bytes(size)]))
    del held
    assert tracemalloc.get_traced_memory()[0] < 100_000
    held = [put(frames, stream([bytes(KEPT_BYTES)])) for _ in range(5)]
    assert tracemalloc.get_traced_memory()[0] > 5 * KEPT_BYTES
    del held
    assert tracemalloc.get_traced_memory()[0] < 2 * KEPT_BYTES + 100_000
    tracemalloc.stop()


@pytest.mark.parametrize("size", [LIMIT + 1, 2**31 - 1, -1, -(2**31), 0, 3])
def test_impossible_sizes_are_rejected_before_an_allocation(size):
    frames = Frames(LIMIT)
    put(frames, stream([b"first"]))
    frames.buffer()
    tracemalloc.start()
    with pytest.raises(KafkaProtocolError, match=str(size)):
        put(frames, size.to_bytes(4, "big", signed=True))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


def test_a_frame_of_exactly_the_limit_is_allowed():
    frames = Frames(100)
    assert put(frames, stream([b"x" * 100])) == [b"x" * 100]
    with pytest.raises(KafkaProtocolError, match="101 bytes"):
        put(frames, stream([b"x" * 101]))


def test_memory_grows_with_received_bytes_and_not_with_the_announced_size():
    """A hundred megabytes are claimed, two arrive: four are held at most."""
    frames = Frames(LIMIT)
    tracemalloc.start()
    put(frames, LIMIT.to_bytes(4, "big") + bytes(1000))
    assert tracemalloc.get_traced_memory()[0] < FIRST_BYTES + 200_000
    put(frames, bytes(2 * FIRST_BYTES))
    assert tracemalloc.get_traced_memory()[0] < 5 * FIRST_BYTES
    tracemalloc.stop()


def test_a_body_grows_although_the_driver_holds_a_slice():
    frames = Frames(LIMIT)
    body = random.Random(1).randbytes(3 * FIRST_BYTES)
    kept, out, left = [], [], memoryview(stream([body]))
    while left:
        buffer = frames.buffer()
        kept.append(buffer[:10])
        size = min(len(buffer), len(left))
        buffer[:size] = left[:size]
        left = left[size:]
        out += frames.received(size)
    assert [bytes(frame) for frame in out] == [body]


@pytest.mark.parametrize(
    ("greeting", "words"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x46", "the peer answers in TLS"),
        (b"\x15\x03\x01\x00\x02\x02\x16", "the peer answers in TLS"),
        (b"\x16\x03\x01\x02\x00\x01\x00", "the peer answers in TLS"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not Kafka: an HTTP server"),
        (b"<html><head>", "not Kafka: an HTTP server"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not Kafka: an SSH server"),
        (b"220 mail ESMTP\r\n", "not Kafka: a mail or FTP server"),
        (b"-ERR unknown command\r\n", "not Kafka: a Redis"),
        (b"\xff\xff\xff\xff\x7f\x00\x00\x00\x01\x7f", "claims -1 bytes"),
    ],
)
@pytest.mark.parametrize("limit", [LIMIT, 2**31 - 1])
@pytest.mark.parametrize("cuts", [None, [1] * 40], ids=["whole", "bytes"])
def test_servers_that_are_not_kafka_are_named(greeting, words, limit, cuts):
    """Also if the limit allows 350 MB, the size that the bytes of a TLS alert would be."""
    with pytest.raises(KafkaProtocolError, match=words):
        put(Frames(limit), greeting, cuts)


def test_frames_before_a_malformed_one_are_yielded():
    frames = Frames(100)
    data = stream([b"good", b"also good"]) + (999).to_bytes(4, "big")
    frames.buffer()[: len(data)] = data
    out = []
    with pytest.raises(KafkaProtocolError, match="999"):
        out.extend(frames.received(len(data)))
    assert out == [b"good", b"also good"]


def test_partial_tells_whether_a_frame_has_begun():
    frames = Frames(LIMIT)
    assert not frames.partial
    put(frames, b"\0\0")
    assert frames.partial
    put(frames, b"\0\x05abcde")
    assert not frames.partial
    put(frames, (200_000).to_bytes(4, "big"))
    assert frames.partial
    put(frames, b"x" * 199_999)
    assert frames.partial
    put(frames, b"x")
    assert not frames.partial
