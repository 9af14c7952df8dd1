"""Lag and commits from progress reports in the format of Spark 4.3."""

import json
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")

from thinconsumer import TopicPartition
from thinconsumer.errors import KafkaConfigurationError
from thinconsumer.spark.listener import COMMIT_EVERY_S, KafkaListener, Lag, offsets_in
from thinconsumer.spark.options import parse

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def report(end, latest, batch=3, name="q", query="id-1", more=()):
    sources = [{"description": "x", "endOffset": end, "latestOffset": latest}, *more]
    return {"id": query, "name": name, "batchId": batch, "sources": sources}


@pytest.mark.parametrize("text", [lambda value: value, json.dumps])
def test_lag_is_the_distance_from_end_to_latest_offset(text):
    end = {"t": {"0": 5}, "@start": {"t": {"0": 0}}}
    lags = []
    listener = KafkaListener(report=lags.append)
    listener.handle_progress(report(text(end), text({"t": {"0": 9, "1": 4}})))
    assert lags == [Lag("q", 3, {T0: 4, T1: 4})]
    assert lags[0].total == 8
    listener.handle_progress(report(text(end), None, name=None))
    assert lags[1] == Lag("id-1", 3, {})


def test_sources_other_than_kafka_are_ignored():
    others = [{"endOffset": 17, "latestOffset": 20}, {"endOffset": {"logOffset": 3}, "latestOffset": None}]
    progress = report({"t": {"0": 5}}, {"t": {"0": 6}}, more=[*others, {"endOffset": {"u": {"0": 2}}}])
    assert offsets_in(progress) == ({T0: 5, U0: 2}, {T0: 6})


@pytest.mark.parametrize(
    ("chosen", "read"),
    [
        ({"subscribe": "t"}, {T0: 1, T1: 2}),
        ({"subscribePattern": "[uv]"}, {U0: 3}),
        ({"assign": '{"t":[1],"u":[0]}'}, {T1: 2, U0: 3}),
    ],
)
def test_only_partitions_that_the_options_select_count(chosen, read):
    selection = parse({"kafka.bootstrap.servers": "h:1", **chosen}).selection
    progress = report({"t": {"0": 1, "1": 2}, "u": {"0": 3}}, {})
    assert offsets_in(progress, selection) == (read, {})


class CommitRecorder:
    """Stands in for a ClusterClient and records its commits."""

    def __init__(self, works=True):
        self.commits = []
        self.works = works

    def commit(self, group, offsets, *, last=False):
        self.commits.append((group, dict(offsets)))
        return self.works or last

    def close(self):
        self.commits.append("closed")


def test_commits_are_rate_limited_but_idle_and_ended_queries_commit_the_rest():
    now, recorder, lags = [100.0], CommitRecorder(), []
    options = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "commitGroup": "g"}
    listener = KafkaListener(options, lags.append, cluster=recorder, clock=lambda: now[0])
    for offset in (1, 2, 3):
        progress = json.dumps(report({"t": {"0": offset}}, {"t": {"0": 9}}))
        listener.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(json=progress)))
    assert recorder.commits == [("g", {T0: 1})]
    now[0] += COMMIT_EVERY_S
    listener.handle_progress(report({"t": {"0": 4}}, {"t": {"0": 9}}))
    listener.handle_progress(report({"t": {"0": 5}}, {"t": {"0": 9}}))
    listener.onQueryIdle(SimpleNamespace(id="id-1"))
    listener.onQueryIdle(SimpleNamespace(id="id-1"))
    listener.handle_progress(report({"t": {"0": 6}}, {"t": {"0": 9}}))
    listener.onQueryTerminated(SimpleNamespace(id="id-1"))
    assert recorder.commits[1:] == [("g", {T0: 4}), ("g", {T0: 5}), ("g", {T0: 6}), "closed"]
    assert [lag.total for lag in lags] == [8, 7, 6, 5, 4, 3]


def test_failed_commits_are_repeated_until_the_query_ends():
    now, recorder = [100.0], CommitRecorder(works=False)
    options = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "commitGroup": "g"}
    listener = KafkaListener(options, lambda lag: None, cluster=recorder, clock=lambda: now[0])
    listener.handle_progress(report({"t": {"0": 1}}, {}))
    listener.onQueryIdle(SimpleNamespace(id="id-1"))
    listener.handle_progress(report({"t": {"1": 2}}, {}))
    listener.onQueryTerminated(SimpleNamespace(id="id-1"))
    listener.onQueryIdle(SimpleNamespace(id="id-1"))
    assert recorder.commits == [("g", {T0: 1}), ("g", {T0: 1}), ("g", {T0: 1, T1: 2}), "closed"]


def test_without_a_group_nothing_is_committed(caplog):
    caplog.set_level("INFO")
    recorder = CommitRecorder()
    KafkaListener({"kafka.bootstrap.servers": "h:1", "subscribe": "t"}, cluster=recorder).handle_progress(
        report({"t": {"0": 1}}, {})
    )
    KafkaListener().handle_progress(report({"t": {"0": 1}}, {"t": {"0": 8}}))
    assert recorder.commits == []
    assert "q, batch 3: lag 7" in caplog.text


def test_only_named_queries_count():
    recorder, lags = CommitRecorder(), []
    options = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "commitGroup": "g"}
    listener = KafkaListener(options, lags.append, queries=iter(["bills", "id-7"]), cluster=recorder, clock=lambda: 0.0)
    for name, query, offset in [("bills", "id-1", 1), (None, "id-2", 2), (None, "id-7", 3), ("mails", "id-3", 4)]:
        listener.handle_progress(report({"t": {"0": offset}}, {"t": {"0": 9}}, name=name, query=query))
    assert [lag.query for lag in lags] == ["bills", "id-7"]
    assert recorder.commits == [("g", {T0: 1}), ("g", {T0: 3})]
    with pytest.raises(KafkaConfigurationError, match="a list"):
        KafkaListener(options, queries="bills")
