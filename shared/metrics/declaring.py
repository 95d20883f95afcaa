"""Declarations of metrics with labels, meaning and writers; a test compares docs/operating/metrics.md with them.

What may go wrong: two metrics have the same name; the registry refuses them when the service starts. The names of v0.31
are not checked: ``karpenter_nodes_created`` exists beside ``karpenter_nodes_created_total``, and the client library
would consider them equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from shared.concurrency.clock import SystemClock
from shared.metrics.exposition.summaries import Summary

disable_created_metrics()  # type: ignore[no-untyped-call]
"""Karpenter's metrics have no ``_created`` series, which would be a second series for each counter."""
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
COUNTER, GAUGE, HISTOGRAM, SUMMARY = "counter", "gauge", "histogram", "summary"
MONOTONIC = SystemClock().monotonic
GROWING = "gauge, only grows"
"""A counter with a name of v0.31, which does not end in ``_total`` as the format requires of counters."""


class Declared(NamedTuple):
    """One metric. ``by``: the services that write it, in the order of their names."""

    name: str
    kind: str
    text: str
    labels: tuple[str, ...]
    by: tuple[str, ...]


class Declarations:
    """Makes metrics in one registry and records them. ``now``: monotonic seconds."""

    def __init__(self, registry: CollectorRegistry, now: Callable[[], float] = MONOTONIC) -> None:
        self.registry = registry
        self._now = now
        self._by: tuple[str, ...] = ()
        self.declared: list[Declared] = []

    def by(self, services: str) -> Declarations:
        """The same declarations; metrics declared here are written by these services, with commas, sorted."""
        found = copy(self)
        found._by = tuple(services.split(", "))
        return found

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        """A number that only grows; ``name`` ends in ``_total``."""
        self._note(name, COUNTER, text, labels)
        return Counter(name, text, labels, registry=self.registry)

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        """A number that grows and falls."""
        self._note(name, GAUGE, text, labels)
        return Gauge(name, text, labels, registry=self.registry)

    def histogram(
        self, name: str, text: str, *labels: str, buckets: Iterable[float] = SECONDS
    ) -> Histogram:
        """Observations; ``buckets`` are their upper bounds."""
        self._note(name, HISTOGRAM, text, labels)
        return Histogram(name, text, labels, buckets=tuple(buckets), registry=self.registry)

    def summary(self, name: str, text: str, *labels: str) -> Summary:
        """Observations with quantiles of the last ten minutes."""
        self._note(name, SUMMARY, text, labels)
        summary = Summary(name, text, labels, self._now)
        self.registry.register(summary)
        return summary

    def old_counter(self, name: str, text: str, *labels: str) -> Gauge:
        """A counter of v0.31 (MET-12): call only ``inc``."""
        self._note(name, GROWING, text, labels)
        gauge = Gauge(name, text, labels, registry=None)
        self.registry.register(_Unchecked(gauge))
        return gauge

    def also_as(self, old: str, metric: Counter | Histogram | Summary, new: str) -> None:
        """Serves ``metric``, declared as ``new``, also under its name of v0.31, with the same labels (MET-12)."""
        known = next(one for one in self.declared if one.name == new)
        kind = GROWING if known.kind == COUNTER else known.kind
        text = f"The same as {new}, under the name of v0.31."
        self.declared.append(known._replace(name=old, kind=kind, text=text))
        self.registry.register(_Renamed(old, text, metric))

    def served(self, declared: Iterable[Declared]) -> None:
        """Adds gauges that a service renders itself at each scrape (``Metrics.add_page``)."""
        self.declared.extend(declared)

    def _note(self, name: str, kind: str, text: str, labels: tuple[str, ...]) -> None:
        self.declared.append(Declared(name, kind, text, labels, self._by))


class _Unchecked(Collector):
    """A metric whose name the registry does not compare with other names."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        return self._gauge.collect()


class _Renamed(Collector):
    """The same values under another name."""

    def __init__(self, name: str, text: str, metric: Counter | Histogram | Summary) -> None:
        self._name, self._text, self._metric = name, text, metric

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        for family in self._metric.collect():
            kind = GAUGE if family.type == COUNTER else family.type
            renamed = Metric(self._name, self._text, kind)
            for sample in family.samples:
                suffix = sample.name.removeprefix(family.name).removesuffix("_total")
                if suffix != "_created":
                    renamed.add_sample(self._name + suffix, sample.labels, sample.value)
            yield renamed


class Series:
    """A gauge with two labels whose series are replaced together: a series without a value is removed (MET-13)."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._held: frozenset[tuple[str, str]] = frozenset()

    def replace(self, values: Mapping[tuple[str, str], float]) -> None:
        """``values``: label values, in the gauge's order -> number."""
        for labels, value in values.items():
            self._gauge.labels(*labels).set(value)
        for labels in self._held - values.keys():
            self._gauge.remove(*labels)
        self._held = frozenset(values)
