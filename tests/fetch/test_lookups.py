"""ListOffsets: versions, and offsets that were not found."""

import pytest

from thinconsumer.wire.error_codes import Code


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_versions_and_isolation(make, kit, version, level, asker):
    world = make(isolation_level=level)
    world.cluster({kit.tp(0): (1, 5)})
    caller = asker(world, kit.tp(0))
    if level == "read_committed" and version < 2:
        world.resets.step(world.now)
        [request] = world.lookups.step(world.now)
        assert request.min_version == 2, "older versions return the high watermark, which includes uncommitted records"
        return
    [sent] = world.look_ups(version)
    assert sent.message.isolation_level == (1 if level == "read_committed" else 0)
    sent.offsets({kit.tp(0): 10}, epoch=5 if version >= 4 else -1)
    assert caller.found == [(10, 123, 5 if version >= 4 else -1)]


@pytest.mark.parametrize("mark", [-1, -2])
def test_offset_minus_one_is_no_result_for_log_start_or_log_end(world, kit, mark, asker):
    """Otherwise the position would become -1."""
    world.cluster({kit.tp(0): (1, 5)})
    caller = asker(world, kit.tp(0), mark)
    world.look_ups()[0].offsets({kit.tp(0): {"offset": -1}})
    assert caller.found == [] and [final for _, final in caller.failed] == [False]


def test_a_log_without_timestamps_finds_no_offset(world, kit, asker):
    """As in Java: message formats before 0.10 cannot be searched by time."""
    world.cluster({kit.tp(0): (1, 5)})
    caller = asker(world, kit.tp(0), 10**12)
    world.look_ups()[0].offsets({kit.tp(0): {"error_code": Code.UNSUPPORTED_FOR_MESSAGE_FORMAT}})
    assert [offset for offset, _, _ in caller.found] == [-1] and caller.failed == []
