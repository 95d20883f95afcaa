"""docs/operating/metrics.md says what is served, and who writes it (docs/spec/operations.md)."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

from shared.distribution.version import VERSION
from shared.metrics import Metrics, Series
from shared.metrics.declaring import Declarations
from shared.metrics.exposition.summaries import Summary
from shared.metrics.health import HealthMetrics
from shared.metrics.requests import RequestMetrics
from shared.metrics.work import EVERY_SERVICE, WorkMetrics
from tests.support.metrics.pages import Scraped

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "operating" / "metrics.md"
ROW = re.compile(r"\| `(?P<name>[a-z0-9_]+)` \|.*\|")
SERVICES = EVERY_SERVICE.split(", ")
OF_SHARED_CODE = {**vars(WorkMetrics(Declarations(CollectorRegistry())))}
OF_SHARED_CODE |= vars(RequestMetrics(Declarations(CollectorRegistry())))
OF_SHARED_CODE |= vars(HealthMetrics(Declarations(CollectorRegistry()), "test"))
FROM_SHARED = ("loop_failures", "call_seconds", "call_errors", *OF_SHARED_CODE)
"""Written by the runtime and by the ways to AWS, the API server and Redis, whoever uses them."""


def test_the_page_lists_every_metric_and_no_other() -> None:
    """A row that differs: write it as this test expects it."""
    rows = [line for line in PAGE.read_text().splitlines() if ROW.fullmatch(line)]
    assert sorted(rows) == sorted(
        f"| `{one.name}` | {one.kind} | {', '.join(one.labels)} | {', '.join(one.by)} | {one.text} |"
        for one in Metrics("test").declared
    )


def test_no_metric_is_declared_twice() -> None:
    names = [one.name for one in Metrics("test").declared]
    assert len(names) == len(set(names))


def test_who_writes_a_metric_is_who_the_page_names() -> None:
    """By the sources of the services, methods of Metrics included."""
    declared = {one.name: set(one.by) for one in Metrics("test").declared}
    writers = dict(written_by())
    assert {name: declared[name] for name in writers} == writers


def written_by() -> Iterator[tuple[str, set[str]]]:
    """Names of metrics that are attributes, each with the services whose sources mention them."""
    users: dict[str, set[str]] = defaultdict(set)
    for service in SERVICES:
        sources = [path.read_text() for path in (ROOT / "services" / service).rglob("*.py")]
        for word in set(re.findall(r"metrics\.(\w+)", "\n".join(sources))):
            users[word].add(service)
    for method, function in inspect.getmembers(Metrics, inspect.isfunction):
        if method.startswith(("count_", "forget_")):
            for word in set(re.findall(r"self\.(\w+)", inspect.getsource(function))):
                users[word] |= users[method]
    for attribute, metrics in attributes():
        for metric in metrics:
            if attribute not in FROM_SHARED:
                yield name_of(metric), users[attribute]


def attributes() -> Iterator[tuple[str, list[MetricWrapperBase | Summary]]]:
    for attribute, held in vars(Metrics("test")).items():
        if attribute == "_of_machines":  # by event, which is a parameter
            continue
        one = held._gauge if isinstance(held, Series) else held
        metrics = list(one.values()) if isinstance(one, dict) else [one]
        if all(isinstance(metric, Counter | Gauge | Histogram | Summary) for metric in metrics):
            yield attribute, metrics


def name_of(metric: MetricWrapperBase | Summary) -> str:
    family = next(iter(metric.describe()))
    return family.name + ("_total" if family.type == "counter" else "")


@pytest.mark.parametrize("service", SERVICES)
def test_a_fresh_service_answers_a_scrape(service: str) -> None:
    scraped = Scraped(Metrics(service, commit="abc1234").text())
    labels = {"service": service, "version": VERSION, "commit": "abc1234"}
    assert scraped.value("karpenter_build_info", **labels) == 1


def test_what_a_service_makes_itself_is_part_of_the_answer() -> None:
    metrics = Metrics("test")
    metrics.add_page(lambda: "nodes 7\n")
    assert Scraped(metrics.text()).value("nodes") == 7
