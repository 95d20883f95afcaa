"""Summaries with quantiles, which the client library lacks: Karpenter's dashboards query ``{quantile="0.9"}``.

Quantiles are exact and cover the last ten minutes, with at most ``MOST_HELD`` observations for each series; sum and
count cover all time. Without an observation in that time they are NaN, as in other Prometheus libraries. What may go
wrong: with more observations than that, the quantiles cover only the latest ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from math import ceil, nan
from threading import Lock

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

QUANTILES = (0.0, 0.5, 0.9, 0.99, 1.0)
WINDOW_SECONDS = 600.0
MOST_HELD = 4096


class Observations:
    """One series. ``observe`` runs on the event loop, the other methods in the threads that serve scrapes."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now, self._lock = now, Lock()
        self._held: deque[tuple[float, float]] = deque(maxlen=MOST_HELD)
        """(time, value), the latest last."""
        self._sum, self._count = 0.0, 0

    def observe(self, value: float) -> None:
        """Adds an observation."""
        with self._lock:
            self._held.append((self._now(), value))
            self._sum += value
            self._count += 1

    def totals(self) -> tuple[float, int]:
        """(sum, count) of all time."""
        with self._lock:
            return self._sum, self._count

    def recent(self) -> list[float]:
        """The values within the window, sorted; older ones are removed."""
        with self._lock:
            oldest = self._now() - WINDOW_SECONDS
            while self._held and self._held[0][0] < oldest:
                self._held.popleft()
            return sorted(value for _, value in self._held)


class Summary(Collector):
    """A metric of kind ``summary``. ``now``: monotonic seconds."""

    def __init__(self, name: str, text: str, labels: Sequence[str], now: Callable[[], float]):
        self._name, self._text, self._labels, self._now = name, text, tuple(labels), now
        self._series: dict[tuple[str, ...], Observations] = {}
        if not labels:
            self.labels()

    def labels(self, *values: str) -> Observations:
        """The series with these values. Raises ValueError for another number of values than labels."""
        if len(values) != len(self._labels):
            raise ValueError(f"{self._name} has {len(self._labels)} labels, {len(values)} given")
        known = self._series.get(values)
        if known is None:
            known = self._series[values] = Observations(self._now)
        return known

    def observe(self, value: float) -> None:
        """Adds an observation to the only series of a summary without labels."""
        self.labels().observe(value)

    def describe(self) -> list[Metric]:
        return [Metric(self._name, self._text, "summary")]

    def collect(self) -> Iterator[Metric]:
        family = Metric(self._name, self._text, "summary")
        for values, series in list(self._series.items()):
            labels = dict(zip(self._labels, values, strict=True))
            recent = series.recent()
            for quantile in QUANTILES:
                text = f"{quantile:g}"
                family.add_sample(
                    self._name, {**labels, "quantile": text}, quantile_of(recent, quantile)
                )
            total, count = series.totals()
            family.add_sample(f"{self._name}_sum", labels, total)
            family.add_sample(f"{self._name}_count", labels, count)
        yield family


def quantile_of(values: Sequence[float], quantile: float) -> float:
    """The smallest of the sorted ``values`` that ``quantile`` (0..1) of them do not exceed; NaN without values."""
    if not values:
        return nan
    return values[max(0, ceil(quantile * len(values)) - 1)]
