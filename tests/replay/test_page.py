"""The page of a trace: complete, bounded, and without anything that a name in the trace could do to it."""

import base64
import hashlib
import json
import re

import pytest

from tests.replay.traces import new_cluster, read_through_a_failure, recording
from thinconsumer.cli import main
from thinconsumer.replay import page as pages
from thinconsumer.replay.story import Bar, Happening, Story
from thinconsumer.replay.telling import tell

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&lt;SCRIPT_HASH STORY_AS_JSON"


def story_of(html):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1])


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    read_through_a_failure(str(folder / "trace"))
    assert main(["replay", str(folder / "trace"), "--html", str(folder / "page.html")]) == 0
    return (folder / "page.html").read_text(encoding="utf-8")


def test_the_page_has_calls_requests_rebalances_positions_and_waits(html):
    data = story_of(html)
    lanes = dict(data["lanes"])
    assert list(lanes) == [
        "calls", "requests to broker 1 (kafka1:9092)", "requests to broker 2 (kafka2:9092)", "member of the group",
    ]  # fmt: skip
    waits = [bar[4] for bar in lanes["calls"] if bar[2] == "poll"]
    assert any("it waits: no new records in 2 partitions" in words for words in waits)
    assert [bar[2] for bar in lanes["member of the group"] if bar[2] == "stable"]
    (lost,) = [bar for bar in lanes["requests to broker 2 (kafka2:9092)"] if bar[2] == "Fetch" and bar[3]]
    assert "no response: connection lost" in lost[4]
    first = next(bar for bar in lanes["requests to broker 1 (kafka1:9092)"] if bar[2] == "Fetch")
    assert first[1] - first[0] == pytest.approx(0.001)
    assert not first[3]
    series = dict(data["series"])
    assert max(count for _, count in series["records buffered"]) == 20
    assert [value for _, value in series["position of orders-0"]] == [0, 10, 4, 10, None]
    assert any("the client calls on_partitions_assigned" in line[4] for line in data["lines"])


def test_the_page_loads_nothing_and_runs_its_own_script_only(html):
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in html
    outside = re.sub(r'id="data">.*?</script>', "", html, flags=re.DOTALL)
    assert not re.search(r"https?:|\bsrc=|\bhref=|@import|url\(|fetch\(|import\(|innerHTML|eval\(", outside)


def test_a_hostile_name_is_text(tmp_path):
    path = str(tmp_path / "trace")
    with recording(new_cluster(), path, client_id=HOSTILE, group_id=HOSTILE) as consumer:
        consumer.subscribe(["orders"])
        consumer.poll(100)
    html = pages.page(tell(path).story)
    assert HOSTILE in story_of(html)["about"]
    assert html.count("<script") == html.count("</script>") == 2
    assert "<img" not in html
    assert "script-src 'sha256-SCRIPT_HASH'" not in html


def test_a_long_story_is_cut_to_what_a_browser_draws():
    """Errors stay, and each bar says for how many it stands."""
    story = Story(lasted=60_000.0)
    story.calls = [Bar("", "poll", float(n), "a poll", n + 0.5, n == 30_001) for n in range(60_000)]
    story.happenings = [Happening(n, float(n), "call", "a call", is_error=n == 59_999) for n in range(60_000)]
    story.happenings[40_000] = Happening(40_000, 4e4, "assigned", "assigned: orders-0")
    story.positions = {f"orders-{n}": [(float(m), m) for m in range(3 * n)] for n in range(100)}
    story.positions["orders-99"] = [(float(m), None if m == 5_001 else m) for m in range(10_000)]
    data = story_of(pages.page(story))
    ((_, bars),) = data["lanes"]
    assert len(bars) == 60_000 / 12 == pages.BARS_MAX
    assert bars[-1][1] == 59_999.5
    (error,) = [bar for bar in bars if bar[3]]
    assert error[0] <= 30_001 <= error[1]
    assert error[4] == "12 poll, 1 error; the first of them: a poll"
    assert len(data["lines"]) == pages.LINES_MAX
    assert [line[4] for line in data["lines"] if line[0] == 40_000] == ["assigned: orders-0"]
    assert data["lines"][-1][0] == 59_999
    assert [name for name, _ in data["series"]] == [f"position of orders-{n}" for n in range(60, 100)]
    points = data["series"][-1][1]
    assert len(points) == pages.POINTS_MAX + 1
    assert [5001, None] in points
    assert points[-1] == [9999, 9999]
    assert len(data["notes"]) == 3
