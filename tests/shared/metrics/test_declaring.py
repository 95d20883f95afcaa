"""One number under two names, and gauges whose series go with their objects (MET-12, MET-13)."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from shared.metrics import Series
from shared.metrics.declaring import COUNTER, GROWING, HISTOGRAM, Declarations
from tests.support.metrics.pages import Scraped


def declarations() -> Declarations:
    return Declarations(CollectorRegistry(auto_describe=True))


def scraped(declare: Declarations) -> Scraped:
    return Scraped(generate_latest(declare.registry))


def test_a_counter_lives_beside_its_old_name() -> None:
    """MET-12: ``karpenter_interruption_received_messages`` had no ``_total``."""
    declare = declarations()
    counter = declare.by("b, a").counter("messages_total", "Messages.", "kind")
    declare.also_as("messages", counter, "messages_total")
    counter.labels("spot").inc(3)
    found = scraped(declare)
    assert found.value("messages_total", kind="spot") == 3
    assert found.value("messages", kind="spot") == 3
    assert [(one.kind, one.by) for one in declare.declared] == [
        (COUNTER, ("b", "a")),
        (GROWING, ("b", "a")),
    ]


def test_a_histogram_keeps_its_buckets_under_its_old_name() -> None:
    declare = declarations()
    histogram = declare.histogram("queue_seconds", "Late.", buckets=(1, 10))
    declare.also_as("latency_seconds", histogram, "queue_seconds")
    histogram.observe(5)
    found = scraped(declare)
    assert found.value("latency_seconds_bucket", le="1.0") == 0
    assert found.value("latency_seconds_bucket", le="10.0") == 1
    assert found.value("latency_seconds_sum") == 5
    assert found.value("latency_seconds_count") == 1
    assert declare.declared[1].kind == HISTOGRAM


def test_an_old_counter_lives_beside_the_new_one() -> None:
    """The library takes ``nodes_created`` for the name of ``nodes_created_total``."""
    declare = declarations()
    declare.counter("nodes_created_total", "Nodes.").inc()
    declare.old_counter("nodes_created", "Nodes.", "provisioner").labels("p").inc(2)
    found = scraped(declare)
    assert found.value("nodes_created_total") == 1
    assert found.value("nodes_created", provisioner="p") == 2


def test_a_counter_is_one_series() -> None:
    """When it began is none of Karpenter's metrics; ``nodes_created_created`` would be there for every counter."""
    declare = declarations()
    declare.counter("claims_created_total", "Claims.").inc()
    declare.histogram("seconds", "Late.", buckets=(1,)).observe(5)
    assert b"_created " not in generate_latest(declare.registry)


def test_series_of_what_is_gone_are_gone() -> None:
    """MET-13: a deleted pool leaves nothing behind."""
    declare = declarations()
    series = Series(declare.gauge("allowed", "Allowed.", "pool", "reason"))
    series.replace({("one", "Empty"): 1, ("two", "Empty"): 2})
    series.replace({("two", "Empty"): 3})
    found = scraped(declare)
    assert found.of("allowed", "pool") == {"two": 3}
    series.replace({})
    assert scraped(declare).of("allowed", "pool") == {}
