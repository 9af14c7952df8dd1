"""Write docs/metrics.md from the table of metrics: ``python docs/generate_metrics.py``.

A test compares the committed page with what this makes, so the page cannot fall behind.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from thinconsumer.metrics import METRICS, TOPIC_METRICS, Metric

PAGE = Path(__file__).with_name("metrics.md")

HEAD = """\
# Metrics

<!-- Made by docs/generate_metrics.py from the table in the code. Do not edit. -->

`Consumer.metrics()` returns a dict of groups, each a dict of values, under the names that Kafka's own consumer uses:

```python
from thinconsumer import Consumer


def print_lag(consumer: Consumer) -> None:
    print(consumer.metrics()["consumer-fetch-manager-metrics"]["records-lag-max"])
```

It does no I/O. Averages, maxima, minima and rates are over the last 30 to 60 seconds; totals are since the consumer was
created. A metric without a sample is NaN.
"""

TOPICS = """
## By topic

Each topic that is read has a group of its own, named `consumer-fetch-manager-metrics.topic-` and its name.
"""


def table(metrics: list[Metric]) -> str:
    """Return the rows of one group."""
    rows = [f"| `{metric.name}` | {metric.stat.text} | {metric.text} |" for metric in metrics]
    return "\n".join(["", "| name | value | of |", "|---|---|---|", *rows, ""])


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for group, metrics in groupby(METRICS, key=lambda metric: metric.group):
        parts += [f"\n## {group}\n", table(list(metrics))]
    return "".join([*parts, TOPICS, table(list(TOPIC_METRICS))])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
