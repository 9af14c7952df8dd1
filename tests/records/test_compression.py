"""Codecs: valid, truncated and corrupt data, wrong size claims, and missing packages."""

import gzip
import itertools
import pickle
import subprocess
import sys
import zlib
from pathlib import Path

import cramjam
import pytest
from handmade import break_lz4_checksum
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.records import compression
from thinconsumer.records.compression import Codec, CodecError, MissingCodecError, compress, decompress
from thinconsumer.records.frames import correct_lz4_checksum

try:  # judges, and from Python 3.14 on nothing else: without a GIL there are no wheels of theirs
    import lz4.frame
    import zstandard
except ImportError:
    lz4 = zstandard = None

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"".join(b"record %d of a batch that repeats itself; " % number for number in range(500))
NOISE = bytes(range(256)) * 300


def unpack(codec, data, limit=compression.DECOMPRESSED_BYTES_MAX, **more):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compression, "DECOMPRESSED_BYTES_MAX", limit)
        return decompress(codec, memoryview(data), **more)


@pytest.fixture(
    params=[pytest.param("", id="as-here"), pytest.param("cramjam", id="cramjam")], scope="module", autouse=True
)
def library(request):
    """Run every test with the codecs of this Python, and with those of one from 3.14 on that lacks zstd."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param:
            patch.setitem(compression._CODECS, Codec.LZ4, (compression._load_cramjam_lz4, "cramjam"))
            patch.setitem(compression._CODECS, Codec.ZSTD, (compression._load_cramjam_zstd, "cramjam"))
        compression._functions.cache_clear()
        yield request.param
    compression._functions.cache_clear()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "data", [b"", b"x", TEXT, NOISE, b"\0" * 3_000_000], ids=["empty", "byte", "text", "noise", "zeros"]
)
def test_round_trip(codec, data):
    assert unpack(codec, compress(codec, data)) == data


@given(st.sampled_from(CODECS), st.lists(st.binary(max_size=40), max_size=40).map(b"".join))
@settings(max_examples=40)
def test_round_trip_of_anything(codec, data):
    assert unpack(codec, compress(codec, data)) == data


def xerial(data: bytes, version: bytes = b"\0\0\0\1\0\0\0\1") -> bytes:
    packed = bytes(cramjam.snappy.compress_raw(data))
    return compression.XERIAL_MAGIC + version + len(packed).to_bytes(4, "big") + packed


def zstd_frame(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data))


#: Data of other writers, by writer.
FOREIGN = {
    "gzip, two members": (Codec.GZIP, gzip.compress(TEXT[:99]) + gzip.compress(TEXT[99:])),
    "snappy, raw: librdkafka": (Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))),
    "snappy, xerial: Java": (Codec.SNAPPY, xerial(TEXT)),
    "snappy, xerial, little-endian: Redpanda": (Codec.SNAPPY, xerial(TEXT, b"\1\0\0\0\1\0\0\0")),
    "snappy, two xerial streams": (Codec.SNAPPY, xerial(TEXT[:99]) + xerial(TEXT[99:])),
    "lz4: cramjam, linked blocks, checksums": (Codec.LZ4, bytes(cramjam.lz4.compress(TEXT))),
    "zstd: cramjam, two frames": (Codec.ZSTD, zstd_frame(TEXT[:99]) + zstd_frame(TEXT[99:])),
}  # fmt: skip
if lz4:
    _STREAM = zstandard.ZstdCompressor(level=19).compressobj()
    FOREIGN |= {
        "lz4, content size": (Codec.LZ4, lz4.frame.compress(TEXT, store_size=True)),
        "lz4, block checksums": (Codec.LZ4, lz4.frame.compress(TEXT, block_checksum=True, store_size=False)),
        "lz4, linked blocks": (Codec.LZ4, lz4.frame.compress(TEXT, block_linked=True)),
        "lz4, blocks of 4 MB": (Codec.LZ4, lz4.frame.compress(TEXT, block_size=lz4.frame.BLOCKSIZE_MAX4MB)),
        "lz4, content checksum": (Codec.LZ4, lz4.frame.compress(TEXT, content_checksum=True)),
        "zstd, with content size": (Codec.ZSTD, zstandard.ZstdCompressor(write_content_size=True).compress(TEXT)),
        "zstd, without: Java, librdkafka, brokers": (
            Codec.ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress(TEXT),
        ),
        "zstd, level 19, streamed": (Codec.ZSTD, _STREAM.compress(TEXT) + _STREAM.flush()),
        "zstd, checksum": (Codec.ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)),
    }  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_data_of_other_writers_are_read(name):
    codec, data = FOREIGN[name]
    assert unpack(codec, data) == TEXT


@pytest.mark.skipif(not zstandard, reason="needs a compressor with this parameter")
def test_zstd_with_a_window_of_8_megabytes():
    """Level 19 uses such windows."""
    params = zstandard.ZstdCompressionParameters.from_level(19, window_log=23)
    stream = zstandard.ZstdCompressor(compression_params=params).compressobj()
    data = NOISE[:70_000] * 130
    assert unpack(Codec.ZSTD, stream.compress(data) + stream.flush()) == data


#: Truncation between two streams or blocks cannot be detected.
BORDERS = {
    "gzip, two members": {len(gzip.compress(TEXT[:99]))},
    "snappy, xerial: Java": {16},
    "snappy, xerial, little-endian: Redpanda": {16},
    "snappy, two xerial streams": {16, len(xerial(TEXT[:99])), len(xerial(TEXT[:99])) + 16},
    "zstd: cramjam, two frames": {len(zstd_frame(TEXT[:99]))},
}


@pytest.mark.parametrize("name", FOREIGN)
def test_truncated_data_are_a_codec_error(name):
    codec, data = FOREIGN[name]
    sizes = itertools.chain(range(min(len(data), 300)), range(max(0, len(data) - 30), len(data)))
    readable = set()
    for size in sizes:
        try:
            assert TEXT.startswith(unpack(codec, data[:size])), size
        except CodecError:
            continue
        readable.add(size)
    assert readable <= BORDERS.get(name, set())


@given(st.sampled_from(sorted(FOREIGN)), st.integers(0, 400), st.integers(1, 255))
@settings(max_examples=200)
def test_corrupt_data_give_codec_errors_only(name, place, change):
    codec, data = FOREIGN[name]
    broken = bytearray(data)
    broken[place % len(data)] ^= change
    try:
        unpack(codec, bytes(broken), 1_000_000)
    except CodecError:
        pass


@given(st.sampled_from(CODECS), st.binary(max_size=60))
@settings(max_examples=200)
def test_random_bytes_give_codec_errors_only(codec, data):
    try:
        unpack(codec, data, 1_000_000)
    except CodecError:
        pass


@pytest.mark.parametrize("codec", CODECS)
def test_bomb_stops_at_the_limit(codec):
    """A megabyte of zeros compresses to a kilobyte or less."""
    bomb = compress(codec, b"\0" * 1_000_000)
    assert len(unpack(codec, bomb, 1_000_000)) == 1_000_000
    with pytest.raises(CodecError, match="more than 999999 bytes"):
        unpack(codec, bomb, 999_999)


def zstd_bomb(blocks: int) -> bytes:
    """Return a frame of blocks that are 128 kB each, of four bytes."""
    middle, last = (((1 << 17) << 3 | 1 << 1 | is_last).to_bytes(3, "little") + b"\0" for is_last in (0, 1))
    return b"\x28\xb5\x2f\xfd\x00\x38" + middle * (blocks - 1) + last


def test_zstd_bomb_of_many_small_blocks_stops_early():
    """4 bytes can expand to 128 kB: 3 kB to 100 MB, which must not be allocated before the limit is checked."""
    assert unpack(Codec.ZSTD, zstd_bomb(10)) == b"\0" * 10 * 128 * 1024
    with pytest.raises(CodecError, match="more than 2000000 bytes"):
        unpack(Codec.ZSTD, zstd_bomb(800), 2_000_000)


#: Decompress the bombs of a pickled list with a limit of 2 MB, by cramjam if an argument says so, and print the errors,
#: and by how many MB each raised the maximum of the memory that was in use. (``ru_maxrss`` is the parent's at first.)
MEMORY = r"""
import pickle, re, sys
from thinconsumer.records import compression as c
if sys.argv[1:]:
    c._CODECS.update({3: (c._load_cramjam_lz4, ""), 4: (c._load_cramjam_zstd, "")})
bombs = pickle.load(sys.stdin.buffer)
def peak():
    return int(re.search(r"VmHWM:\s*(\d+)", open("/proc/self/status").read())[1])
c.DECOMPRESSED_BYTES_MAX = 2_000_000
for codec in 1, 2, 3, 4:
    c.decompress(codec, memoryview(c.compress(codec, b"x")))
for codec, bomb in bombs:
    before = peak()
    try:
        c.decompress(codec, memoryview(bomb))
    except c.CodecError as error:
        print((peak() - before) // 1024, error)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads Linux's /proc")
def test_a_bomb_takes_no_more_memory_than_the_limit(library):
    """20 MB in each bomb, 2**62 bytes in those that lie."""
    bombs = [(codec, compress(codec, bytes(20_000_000))) for codec in CODECS[:3]] + [(Codec.ZSTD, zstd_bomb(160))]
    bombs += [(LIES[name][0], LIES[name][1]()) for name in ("lz4 content size", "zstd content size")]
    words = [sys.executable, "-c", MEMORY, *([library] if library else [])]
    root = Path(compression.__file__).parents[2]
    done = subprocess.run(words, input=pickle.dumps(bombs), capture_output=True, cwd=root, check=True)
    lines = done.stdout.decode().splitlines()
    assert len(lines) == 6
    assert all("more than 2000000 bytes" in line for line in lines[:4])
    assert max(int(line.split()[0]) for line in lines) < 8, "the parts, and the whole"


def test_many_small_frames_take_linear_time():
    """zlib and compression.zstd copy what is behind a frame: with all of it, 100,000 empty frames take minutes."""
    fed = []

    class Inflate:
        def __init__(self):
            self._stream = zlib.decompressobj(31)

        def decompress(self, data, most):
            fed.append(len(data))
            return self._stream.decompress(data, most)

        def __getattr__(self, name):
            return getattr(self._stream, name)

    data = gzip.compress(b"") * 1000 + gzip.compress(TEXT * 20) + gzip.compress(NOISE)
    assert compression._inflate(Inflate, memoryview(data), "cut") == TEXT * 20 + NOISE
    assert sum(fed) < 2 * len(data) + 1000 * compression.NEXT_FRAMES


LIES = {
    "lz4 content size": (Codec.LZ4, lambda: _lz4_claiming(2**62)),
    "zstd content size": (Codec.ZSTD, lambda: b"\x28\xb5\x2f\xfd\xe0" + (2**62).to_bytes(8, "little") + b"\x01\0\0"),
    "snappy length": (Codec.SNAPPY, lambda: b"\xff\xff\xff\x7f" + b"\0a"),
    "xerial block length": (Codec.SNAPPY, lambda: compression.XERIAL_MAGIC + bytes(8) + b"\x7f\xff\xff\xff" + b"\0a"),
    "xerial block of no length": (Codec.SNAPPY, lambda: compression.XERIAL_MAGIC + bytes(8) + bytes(40)),
    "xerial block of negative length": (Codec.SNAPPY, lambda: compression.XERIAL_MAGIC + bytes(8) + b"\xff" * 40),
}


def _lz4_claiming(size: int) -> bytes:
    frame = bytes(cramjam.lz4.compress(TEXT))
    flags = frame[4] & ~0x04 | 0x08  # with the content's size, without its checksum
    return correct_lz4_checksum(frame[:4] + bytes((flags, frame[5])) + size.to_bytes(8, "little") + frame[6:-4])


@pytest.mark.parametrize("name", LIES)
def test_claimed_sizes_are_not_trusted(name):
    codec, make = LIES[name]
    with pytest.raises(CodecError):
        unpack(codec, make())


@pytest.mark.parametrize("name", LIES)
def test_a_wrong_size_claim_does_not_affect_the_next_batch(name):
    """A reused lz4 decompressor remembers the claim of the corrupt frame and rejects good ones."""
    codec, make = LIES[name]
    with pytest.raises(CodecError):
        unpack(codec, make())
    assert unpack(codec, compress(codec, TEXT)) == TEXT


@pytest.mark.parametrize("store_size", [True, False])
def test_wrong_lz4_header_checksum_of_old_java(store_size):
    """Kafka 0.8 and 0.9 included the magic number; format 0 has such frames and correct ones."""
    right = _lz4_claiming(len(TEXT)) if store_size else bytes(cramjam.lz4.compress(TEXT))
    wrong = break_lz4_checksum(right)
    assert unpack(Codec.LZ4, wrong, magic=0) == unpack(Codec.LZ4, right, magic=0) == TEXT
    with pytest.raises(CodecError):
        unpack(Codec.LZ4, wrong, magic=1)
    assert correct_lz4_checksum(wrong) == right


@pytest.mark.parametrize(
    ("codec", "hidden", "before", "since"),
    [
        (Codec.SNAPPY, ["cramjam"], "thinconsumer[snappy]", "thinconsumer[snappy]"),
        (Codec.LZ4, ["lz4.frame", "cramjam"], "lz4", "cramjam"),
        (Codec.ZSTD, ["zstandard", "compression.zstd", "cramjam"], "zstandard", "cramjam"),
    ],
)
def test_error_of_a_missing_package_names_codec_and_extra(library, monkeypatch, codec, hidden, before, since):
    extra = since if library or sys.version_info >= (3, 14) else before
    for name in hidden:
        monkeypatch.setitem(sys.modules, name, None)
    compression._functions.cache_clear()
    try:
        with pytest.raises(MissingCodecError) as caught:
            unpack(codec, b"")
        assert (caught.value.codec, caught.value.extra) == (codec.name.lower(), extra)
        assert f"pip install '{extra}'" in str(caught.value)
        assert compression.available()[codec.name.lower()].startswith("missing")
        monkeypatch.undo()
        assert unpack(codec, compress(codec, TEXT)) == TEXT, "installed meanwhile, as in a notebook"
    finally:
        compression._functions.cache_clear()


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec_and_corrupt_data_raise_different_errors(codec):
    with pytest.raises(MissingCodecError, match=f"codec {codec}"):
        unpack(codec, b"")


def test_standard_library_zstd_interface():
    """Python 3.14's decompressor has the interface of zlib's, which stands in for it here."""
    data = gzip.compress(TEXT) + gzip.compress(b"more")
    inflate = compression._inflate
    assert inflate(lambda: zlib.decompressobj(31), memoryview(data), "cut") == TEXT + b"more"
    with pytest.raises(CodecError, match="cut"):
        inflate(lambda: zlib.decompressobj(31), memoryview(data[:-1]), "cut")


def test_available_names_every_codec():
    assert set(compression.available()) == {codec.name.lower() for codec in Codec}
