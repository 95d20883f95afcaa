"""Without a collector there is no tracing: nothing is imported, and a message is as it was."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from shared.concurrency.clock import SystemClock
from shared.errors import ConfigurationError
from shared.metrics import Metrics
from shared.redis.bus import Envelope
from shared.runtime.tracing import OFF
from shared.runtime.tracing.opening import open_tracer
from shared.settings import WatcherSettings, read
from tests.support.metrics.pages import Scraped

PROJECT = Path(__file__).resolve().parents[4]
ENVELOPE = Envelope(id="1", type="a", key="k", body=b"{}", at=1.0)
OPENED = """
import random, sys
import shared.runtime.environment
from shared.metrics import Metrics
from shared.runtime.tracing.opening import open_tracer
from shared.settings import WatcherSettings
settings = WatcherSettings(cluster_name="test")
chance = random.Random(1)
tracer = open_tracer("watcher", settings, Metrics("w"), instance="a", clock=None, chance=chance)
assert not tracer.enabled
unwanted = ("opentelemetry.sdk", "opentelemetry.exporter", "google.protobuf", "requests")
print([name for name in sys.modules if name.startswith(unwanted)])
"""


def opened(endpoint: str) -> object:
    settings = read(WatcherSettings, cluster_name="test", otel_exporter_otlp_endpoint=endpoint)
    chance, clock = random.Random(1), SystemClock()
    return open_tracer("watcher", settings, Metrics("w"), instance="a", clock=clock, chance=chance)


@pytest.mark.slow
def test_without_an_endpoint_services_import_no_sdk() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OPENED], cwd=PROJECT, capture_output=True, text=True, check=False,
        env={"PATH": ""},
    )  # fmt: skip
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def test_without_an_endpoint_nothing_is_recorded() -> None:
    assert opened("") is OFF
    with OFF.span("a", parent="", pods=3) as span, OFF.message(ENVELOPE, "consume"):
        span.note(more=1)
        span.fail("no")
    assert span.traceparent == OFF.record("a", parent="", start=1.0, end=2.0) == ""


def test_a_missing_sdk_is_named_with_what_mends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "shared.runtime.tracing.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'dovetail\[tracing\]'"):
        opened("http://127.0.0.1:4318")


def test_an_address_that_is_no_url_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="OTEL_EXPORTER_OTLP_ENDPOINT"):
        opened("collector:4318")


async def test_a_dropped_span_counts_in_the_services_metrics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shared.runtime.tracing.otlp.MOST_WAITING", 1)
    metrics = Metrics("watcher")
    settings = read(
        WatcherSettings, cluster_name="t", otel_exporter_otlp_endpoint="http://127.0.0.1:9"
    )
    tracer = open_tracer(
        "watcher", settings, metrics, instance="a", clock=SystemClock(), chance=random.Random(1)
    )
    monkeypatch.setattr("shared.runtime.tracing.otlp.CLOSE_SECONDS", 0.01)
    for _ in range(3000):
        tracer.record("a", parent="", start=1.0, end=2.0)
    await tracer.close()
    scraped = Scraped(metrics.text())
    assert (scraped.value("dovetail_trace_spans_dropped_total", reason="queue_full") or 0) > 0
