"""docs/grafana/thinconsumer.json queries what the collector for Prometheus exports, and nothing else."""

import itertools
import json
import re
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client")

from thinconsumer.prometheus import ConsumerCollector

DASHBOARD = json.loads((Path(__file__).parents[2] / "docs/grafana/thinconsumer.json").read_text(encoding="utf-8"))
VARIABLES = DASHBOARD["templating"]["list"]
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def test_every_metric_and_label_is_one_that_a_member_of_a_group_exports(make_group):
    world = make_group()
    one, other = world.member(), world.member()
    world.settle(one)
    world.settle(one, other)
    world.read(one, other)
    one.commit()
    one.poll(0)
    exported = {
        sample.name: set(sample.labels) for family in ConsumerCollector(one).collect() for sample in family.samples
    }
    queried = set()
    for query in [*QUERIES, *(each["definition"] for each in VARIABLES if each["type"] == "query")]:
        for name, labels in re.findall(r"\b(kafka_\w+)(?:\{(.*?)\})?", query):
            queried.add(name)
            asked = {*re.findall(r"(\w+)=~", labels), *re.findall(r"\w+", "".join(re.findall(r"by \((.*?)\)", query)))}
            assert asked <= exported[name], query
    assert len(queried) > 15


def test_panels_have_queries_of_their_own_and_do_not_overlap():
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) and len(set(QUERIES)) == len(QUERIES)
    cells = [
        (panel["gridPos"]["x"] + column, panel["gridPos"]["y"] + row)
        for panel in panels
        for column, row in itertools.product(range(panel["gridPos"]["w"]), range(panel["gridPos"]["h"]))
    ]
    assert len(set(cells)) == len(cells) and max(column for column, _ in cells) == 23
    assert all(panel["title"] and panel["description"].endswith(".") for panel in panels)


def test_the_data_source_is_chosen_in_grafana():
    places = [*DASHBOARD["panels"], *VARIABLES[1:], *(t for panel in DASHBOARD["panels"] for t in panel["targets"])]
    assert VARIABLES[0]["type"] == "datasource" and VARIABLES[0]["query"] == "prometheus"
    assert {place["datasource"]["uid"] for place in places} == {"${" + VARIABLES[0]["name"] + "}"}
    known = {f"${each['name']}" for each in VARIABLES} | {"$__rate_interval"}
    assert {name for query in QUERIES for name in re.findall(r"\$\w+", query)} <= known
