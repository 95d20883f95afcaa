"""Reads what a scrape answers."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families


class Scraped:
    """The samples of one answer. Raises ValueError for what is no Prometheus text."""

    def __init__(self, text: str | bytes) -> None:
        whole = text.decode() if isinstance(text, bytes) else text
        self._samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(whole)
            for sample in family.samples
        }

    def value(self, name: str, /, **labels: str) -> float | None:
        """Of the series with exactly these labels; None: it is not served."""
        return self._samples.get((name, frozenset(labels.items())))

    def of(self, name: str, label: str) -> dict[str, float]:
        """Value of ``label`` -> number, of all series of this name. Raises KeyError for one without the label."""
        return {
            dict(labels)[label]: value
            for (found, labels), value in self._samples.items()
            if found == name
        }
