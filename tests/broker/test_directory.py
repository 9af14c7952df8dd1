"""Persistent storage: recovery of written data, truncation of incomplete data, locking."""

import json
import logging
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.errors import IllegalArgumentError, IllegalStateError
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.types import TopicPartition
from thinconsumer_testing.broker.config import TopicConfig
from thinconsumer_testing.broker.directory import LOG_NAME, OPEN_FILES_MAX, NodeDirectory, valid_prefix
from thinconsumer_testing.broker.image import PartitionImage, StoredCluster, TopicImage
from thinconsumer_testing.broker.log.log import AppendRefused, Log

TP = TopicPartition("orders.eu-west", 3)
NOW = 1_700_000_000_000
ID, OTHER_ID = bytes(15) + b"\1", bytes(15) + b"\2"


def batch(*values, base=0, **more):
    return build_batch([NewRecord(value, b"k", timestamp=NOW) for value in values], base_offset=base, **more)


def topic(name="t", partitions=1, topic_id=ID, **configs):
    rows = [PartitionImage(name, topic_id, number, 1, 4, (1, 2), (1,)) for number in range(partitions)]
    return TopicImage(name, topic_id, tuple(rows), configs, internal=name.startswith("__"))


def save(store, *topics, cluster_id="", next_producer_id=0):
    store.save(StoredCluster(cluster_id, next_producer_id, {topic.name: topic for topic in topics}))


def log_of(store, tp=TP, **config):
    return Log(tp, TopicConfig(**config), store.log_store(tp))


def values(log):
    return [r.value for b in log.read_batches(0, log.end_offset) for r in b.decode("t", 0, start=log.start_offset)]


def append(log, *more):
    for value in more:
        log.append(batch(value), leader_epoch=2, now_ms=NOW)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "deep" / "data"


@pytest.fixture
def open_store(folder):
    """Open the directory, after closing the previous store."""
    opened = []

    def reopen():
        if opened:
            opened.pop().close()
        opened.append(NodeDirectory(folder))
        return opened[-1]

    yield reopen
    for store in opened:
        store.close()


def test_logs_are_restored_with_producer_state_and_epochs(open_store, folder):
    store = open_store()
    assert store.cluster == StoredCluster("", 0, {})
    log = log_of(store)
    append(log, b"a")
    assert (folder / "orders.eu-west-3" / LOG_NAME).stat().st_size == log.size_bytes, "before it is closed"
    log.append(
        batch(b"b", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True), leader_epoch=5, now_ms=NOW
    )
    again = log_of(open_store())
    assert values(again) == [b"a", b"b"]
    assert (again.end_offset, again.epochs, again.open_transactions()) == (2, [(2, 0), (5, 1)], {1: 1})
    assert again.high_watermark == 2
    append(again, b"c")
    assert values(log_of(open_store())) == [b"a", b"b", b"c"]
    assert (folder / "orders.eu-west-3" / LOG_NAME).read_bytes() == again.read(0, 3, 1 << 20)


def test_truncation_deletion_and_compaction_are_restored(open_store):
    store = open_store()
    log = log_of(store, compact=True)
    append(log, b"a", b"b", b"c", b"d")
    log.truncate_to(3)
    log.delete_before(1)
    again = log_of(open_store(), compact=True)
    assert (again.start_offset, again.end_offset, values(again)) == (1, 3, [b"b", b"c"])
    again.compact(NOW, 3)
    append(again, b"e")
    last = log_of(open_store())
    assert (last.start_offset, values(last)) == (1, [b"c", b"e"])
    last.delete_before(4)
    emptied = log_of(open_store())
    assert (emptied.start_offset, emptied.end_offset, values(emptied)) == (4, 4, [])
    emptied.start_at(90)
    assert log_of(open_store()).end_offset == 90


def test_incomplete_end_is_truncated_with_a_warning(open_store, folder, caplog):
    whole = len(batch(b"a"))
    for cut in range(1, whole):
        log = log_of(open_store(), TopicPartition("torn", cut))
        append(log, b"a", b"b")
        path = folder / f"torn-{cut}" / LOG_NAME
        os.truncate(path, 2 * whole - cut)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            again = log_of(open_store(), TopicPartition("torn", cut))
        assert values(again) == [b"a"]
        assert f"the {whole - cut} bytes from there on" in caplog.text
        append(again, b"c")
        assert values(log_of(open_store(), TopicPartition("torn", cut))) == [b"a", b"c"]


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (b"", ""),
        (b"x", "incomplete batch header"),
        (bytes(61), "invalid batch header"),
        (batch(b"b", base=1)[:-1], "incomplete batch"),
        (batch(b"b", base=1)[:-1] + b"x", "wrong checksum"),
        (batch(b"b", base=0), "base offset 0 and last offset delta 0 after offset 0"),
        (b"\xff" * 8 + batch(b"b")[8:], "offset -1"),
        (batch(b"b", base=1, last_offset_delta=-1), "offset 1"),
    ],
)
def test_invalid_batches_are_detected(broken, problem):
    good = batch(b"a")
    found, text = valid_prefix(good + broken)
    assert found == len(good)
    assert problem in text


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=200), st.integers(0, 200), st.integers(0, 255))
def test_any_bytes_are_truncated_to_valid_batches(junk, at, byte):
    data = bytearray(batch(b"a") + batch(b"b", base=1) + junk)
    data[at % len(data)] = byte
    size, _ = valid_prefix(bytes(data))
    assert 0 <= size <= len(data)
    assert valid_prefix(bytes(data[:size])) == (size, "")


def test_logs_are_deleted_with_their_topics_and_partitions(open_store, folder):
    store = open_store()
    save(store, topic("t", 2), topic("u", 1, OTHER_ID))
    logs = {tp: log_of(store, tp) for tp in (TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0))}
    for log in logs.values():
        append(log, b"a", b"b")
        log.delete_before(1)
    save(store, topic("t", 1))
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["t-0"]
    append(logs[TopicPartition("u", 0)], b"late")  # its replica may still be notified
    logs[TopicPartition("u", 0)].truncate_to(1)
    logs[TopicPartition("u", 0)].start_at(0)
    assert not (folder / "u-0").exists()
    again = open_store()
    assert values(log_of(again, TopicPartition("t", 0))) == [b"b"]
    assert log_of(again, TopicPartition("u", 0)).end_offset == 0


def test_recreated_topic_starts_empty(open_store):
    store = open_store()
    save(store, topic("t"))
    append(log_of(store, TopicPartition("t", 0)), b"a")
    save(store, topic("t", 1, OTHER_ID))
    assert log_of(open_store(), TopicPartition("t", 0)).end_offset == 0


def test_log_opened_again_is_empty(open_store, folder):
    """The broker opens each replica's log once, and again only after the replica was removed."""
    store = open_store()
    old = log_of(store)
    append(old, b"a", b"b")
    old.delete_before(1)
    new = log_of(store)
    assert (new.start_offset, new.end_offset) == (0, 0)
    append(old, b"late")
    append(new, b"c")
    assert values(log_of(open_store())) == [b"c"]


def test_foreign_files_are_kept(open_store, folder, caplog):
    store = open_store()
    save(store, topic("t"))
    append(log_of(store, TopicPartition("t", 0)), b"a")
    (folder / "t-0" / "notes.txt").write_text("mine")
    save(store)
    assert [path.name for path in (folder / "t-0").iterdir()] == ["notes.txt"]
    assert "cannot remove the folder" in caplog.text


def test_directory_is_locked(open_store, folder):
    store = open_store()
    with pytest.raises(IllegalStateError, match="used by another broker"):
        NodeDirectory(folder)
    program = "import sys; from thinconsumer_testing.broker.directory import NodeDirectory; NodeDirectory(sys.argv[1])"
    other = subprocess.run([sys.executable, "-c", program, folder], capture_output=True, text=True, check=False)
    assert "used by another broker: stop that one first, or use another directory" in other.stderr
    store.close()
    store.close()
    NodeDirectory(folder).close()


def test_closed_store_rejects_writes(open_store):
    store = open_store()
    log = log_of(store)
    append(log, b"a")
    store.close()
    append(log, b"b")
    log.delete_before(1)
    with pytest.raises(IllegalStateError, match="closed"):
        store.log_store(TP)
    with pytest.raises(IllegalStateError, match="closed"):
        save(store)
    assert values(log_of(open_store())) == [b"a"]


def test_more_partitions_than_open_files(open_store):
    count = OPEN_FILES_MAX + 20
    store = open_store()
    logs = [log_of(store, TopicPartition("many", number)) for number in range(count)]
    for value in (b"a", b"b"):
        for log in logs:
            append(log, value)
    assert len(store._files) == OPEN_FILES_MAX
    again = open_store()
    assert all(values(log_of(again, TopicPartition("many", number))) == [b"a", b"b"] for number in range(count))


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{", '{"version": 1}', "null", "[" * 100_000, '{"version": 2}', "\ud800",
        '{"version": 1, "cluster_id": "", "next_producer_id": -1, "topics": [], "log_start_offsets": {}}',
        '{"version": 1, "cluster_id": "", "next_producer_id": 0, "topics": [1], "log_start_offsets": {}}',
        '{"version": 1, "cluster_id": "", "next_producer_id": 0, "topics": [], "log_start_offsets": {"t-0": "x"}}',
        '{"version": 1, "cluster_id": "", "next_producer_id": 0, "topics": [], "log_start_offsets": []}',
    ],
)  # fmt: skip
def test_invalid_meta_file_error_names_the_file(folder, text):
    folder.mkdir(parents=True)
    (folder / "meta.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    for _ in range(2):  # and releases the lock
        with pytest.raises(IllegalStateError, match=r"meta\.json"):
            NodeDirectory(folder)


@pytest.mark.parametrize("name", ["", ".." + os.sep + "x", "a/b", "a\\b", "a\0b", "c:d", "/etc/x"])
def test_topic_names_cannot_escape_the_directory(open_store, folder, name):
    store = open_store()
    with pytest.raises(IllegalArgumentError, match="not valid as a folder name"):
        store.log_store(TopicPartition(name, 0))
    save(store, topic("t"))
    meta = json.loads((folder / "meta.json").read_text())
    meta["topics"][0]["name"] = name
    store.close()
    (folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(IllegalStateError, match="not valid as a folder name"):
        NodeDirectory(folder)


def test_partially_written_batch_is_removed(open_store, folder):
    """On a full disk later batches would follow the incomplete one, and all of them would be truncated on recovery."""
    store = open_store()
    log = log_of(store)
    append(log, b"a")
    file = store._logs[TP]

    class Full:
        def write(self, data):
            with file.path.open("ab") as real:
                real.write(bytes(data[:20]))
            raise OSError(28, "No space left on device")

        def close(self):
            pass

    store.close_file(file)
    store._files[file] = Full()
    with pytest.raises(Exception, match="No space left"):
        append(log, b"lost")
    store.close_file(file)
    append(log, b"b")
    assert values(log) == values(log_of(open_store())) == [b"a", b"b"]


@pytest.fixture
def in_the_way(folder):
    """Make writes of these files fail until they are allowed again; file permissions would not stop root."""
    blocked = []

    def block(*names):
        for name in names:
            (folder / name).mkdir(parents=True)
            blocked.append(folder / name)

    def free():
        while blocked:
            blocked.pop().rmdir()

    block.free = free
    return block


def test_unwritten_metadata_is_written_once_there_is_room(open_store, folder, in_the_way, caplog):
    """An exception would leave a half-applied change in the cluster. The failure is logged once."""
    store = open_store()
    log = log_of(store)
    in_the_way("meta.tmp")
    for number in range(3):
        save(store, topic("t", number + 1), cluster_id="c", next_producer_id=number)
    assert [record.getMessage() for record in caplog.records] == [
        f"cannot write {folder / 'meta.json'}: Is a directory"
    ]
    in_the_way.free()
    append(log, b"a")
    in_the_way("meta.tmp")
    save(store, topic("t", 4), cluster_id="c", next_producer_id=7)
    in_the_way.free()
    assert open_store().cluster == StoredCluster("c", 7, {"t": topic("t", 4)}), "at the latest when it is closed"


def test_failed_compaction_keeps_the_log(open_store, in_the_way):
    """In memory, too, because later truncations use positions in the file. Aborted transactions stay aborted."""
    log = log_of(open_store(), compact=True)
    append(log, b"a", b"b", b"c")
    txn = {"producer_id": 1, "producer_epoch": 0}
    log.append(batch(b"x", base_sequence=0, transactional=True, **txn), leader_epoch=2, now_ms=NOW)
    log.append_control(**txn, commit=False, coordinator_epoch=0, leader_epoch=2, now_ms=NOW)
    append(log, b"d")
    in_the_way(f"orders.eu-west-3/{LOG_NAME[:-4]}.tmp")
    log.compact(NOW, log.end_offset)
    assert log.aborted(0, 6) == [(1, 3)]
    log.truncate_to(5)
    in_the_way.free()
    again = log_of(open_store(), compact=True)
    assert (again.end_offset, again.aborted(0, 6)) == (5, [(1, 3)])
    append(again, b"e")
    again.compact(NOW, again.end_offset)
    assert values(again)[-1] == b"e"
    assert len(values(again)) < 5
    assert values(log_of(open_store())) == values(again)


def test_log_without_a_folder_rejects_appends(open_store, folder):
    """The folder could not be created: the leader rejects batches and keeps running."""
    store = open_store()
    log = log_of(store)
    (folder / "orders.eu-west-3").write_text("in the way")
    with pytest.raises(AppendRefused, match="File exists"):
        append(log, b"a")
    (folder / "orders.eu-west-3").unlink()
    append(log, b"b")
    assert values(log) == values(log_of(open_store())) == [b"b"]
