"""``poll_batches``: what poll promises, for columns."""

import subprocess
import sys

import pytest

from thinconsumer import Consumer, TopicPartition
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.testing import Simulation

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_without_numpy_the_call_says_what_to_install():
    """Nothing else needs it: the package imports, and a consumer is built, without."""
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "from thinconsumer import Consumer, TopicPartition\n"
        "with Consumer(bootstrap_servers='127.0.0.1:1') as consumer:\n"
        "    consumer.assign([TopicPartition('t', 0)])\n"
        "    try: consumer.poll_batches()\n"
        "    except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "pip install 'thinconsumer[arrow]'" in done.stdout


@pytest.fixture
def numpy():
    return pytest.importorskip("numpy")


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill() with SIGINT ends the process")
def test_ctrl_c_while_numpy_is_imported_leaves_it_whole_for_the_next_call(numpy):
    """A C extension can be loaded once in a process: half imported, numpy would be lost to it for good."""
    code = (
        "import os, signal, sys\n"
        "from thinconsumer import Consumer, TopicPartition\n"
        "class CtrlC:\n"
        "    def find_spec(self, name, *about):\n"
        "        if name == 'numpy.dtypes':\n"  # imported by its C extension
        "            sys.meta_path.remove(self)\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.meta_path.insert(0, CtrlC())\n"
        "consumer = Consumer(bootstrap_servers='127.0.0.1:1')\n"
        "consumer.assign([TopicPartition('t', 0)])\n"
        "try: consumer.poll_batches(1)\n"
        "except KeyboardInterrupt: print('interrupted')\n"
        "print(consumer.poll_batches(1))\n"
        "consumer.close()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.splitlines() == ["interrupted", "{}"], done.stderr


def offsets(found):
    return {tp.partition: columns.offsets.tolist() for tp, columns in found.items()}


def test_batches_are_asked_for_in_larger_answers_than_rows(numpy, reading):
    """One of a megabyte is decoded in no time: the next one would be waited for."""
    w, consumer = reading(3)
    asked = consumer._reader.managers.planner
    assert sum(map(len, consumer.poll(1000).values())) == 3 and not asked.batches
    w.append(3)
    assert offsets(consumer.poll_batches(1000)) == {0: [3, 4, 5]} and asked.batches
    w.append(3)
    assert sum(map(len, consumer.poll(1000).values())) == 3 and not asked.batches


def test_columns_carry_everything(numpy, world):
    w = world()
    headers = (("a", b"1"), ("b", None))
    batch = [NewRecord(b"v", b"k", headers, timestamp=1234), NewRecord(None, b"gone", timestamp=1235)]
    w.cluster.append_batch(T0, build_batch(batch))
    consumer = w.consumer()
    rows = consumer.poll(1000)[T0]
    consumer.seek(T0, 0)
    assert consumer.poll_batches(1000)[T0].rows() == rows


@pytest.fixture
def member(numpy, closed_at_end):
    """Return a function that makes members of one group on a simulated cluster; ``member.sim`` is the cluster."""
    sim = Simulation(seed=1, brokers=1, topics={"t": 2})

    def make(**options):
        options = {"group_id": "g", "auto_offset_reset": "earliest", **options}
        return closed_at_end(Consumer("t", driver=sim.driver(), bootstrap_servers=sim.bootstrap_servers, **options))

    make.sim = sim
    return make


def read(consumer, count, **how):
    """Poll until so many records came; return their offsets by partition."""
    found = {}
    for _ in range(1000):
        for tp, columns in consumer.poll_batches(100, **how).items():
            found.setdefault(tp.partition, []).extend(columns.offsets.tolist())
        if sum(map(len, found.values())) >= count:
            return found
    raise AssertionError(found)


def test_a_commit_covers_what_calls_before_have_returned(member):
    consumer = member(enable_auto_commit=False)
    for values in ([b"a", b"b"], [b"c"]):
        member.sim.produce("t", 0, values)
    assert read(consumer, 1, max_bytes=1) == {0: [0, 1]}
    consumer.commit()
    assert consumer.committed(T0) == 2


def test_what_is_committed_by_itself_is_what_calls_before_have_returned(member):
    """The interval is over at once: each call commits what the one before has returned, and closing the rest."""
    consumer = member(auto_commit_interval_ms=0)
    for values in ([b"a", b"b"], [b"c"]):
        member.sim.produce("t", 0, values)
    assert read(consumer, 2, max_bytes=1) == {0: [0, 1]}
    assert member(enable_auto_commit=False, group_instance_id="other").committed(T0) in (None, 0)
    assert read(consumer, 1) == {0: [2]}
    consumer.close()
    heir = member()
    member.sim.produce("t", 0, [b"d"])
    assert read(heir, 1) == {0: [3]}


def test_members_share_out_and_none_gets_what_is_another_s(member):
    first, second = member(), member()
    for partition in (0, 1):
        member.sim.produce("t", partition, [b"x"] * 5)
    found = []
    for _ in range(1000):
        for consumer in (first, second):
            for tp, columns in consumer.poll_batches(50).items():
                assert tp in consumer.assignment()
                found += [(tp.partition, offset) for offset in columns.offsets.tolist()]
        if len(set(found)) == 10 and len(first.assignment()) == len(second.assignment()) == 1:
            break
    assert sorted(set(found)) == [(partition, offset) for partition in (0, 1) for offset in range(5)]
