"""Metrics of nodes that come and go (MET-03, MET-12)."""

from __future__ import annotations

import pytest

from shared.domain import labels as keys
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.metrics import Metrics
from tests.support.metrics.pages import Scraped
from tests.support.planning.builders import make_machine, make_node

ZONE = {keys.ZONE: "us-east-1a"}


@pytest.mark.parametrize(("generation_api", "old"), [(V1, None), (V1ALPHA5, 1)])
def test_a_registered_node_is_counted(generation_api: str, old: float | None) -> None:
    """MET-03; a Provisioner's also by the name of v0.31."""
    metrics = Metrics("test")
    metrics.count_registered(make_machine(generation_api=generation_api, labels=ZONE))
    scraped = Scraped(metrics.text())
    new = {"nodepool": "default", "zone": "us-east-1a"}
    assert scraped.value("karpenter_nodes_created_total", **new) == 1
    assert scraped.value("karpenter_nodes_created", provisioner="default") == old


@pytest.mark.parametrize(("label", "old"), [(keys.NODE_POOL, None), (keys.PROVISIONER_NAME, 1)])
def test_a_node_that_is_gone_is_counted_with_its_age_and_its_end(
    label: str, old: float | None
) -> None:
    """MET-03: metrics of nodes."""
    metrics = Metrics("test")
    node = make_node(labels={label: "default", **ZONE})
    metrics.count_gone(node, seconds=12, lifetime=3600)
    scraped = Scraped(metrics.text())
    new = {"nodepool": "default", "zone": "us-east-1a"}
    assert scraped.value("karpenter_nodes_terminated_total", **new) == 1
    prefix = "karpenter_nodes"
    pool = {"nodepool": "default"}
    assert scraped.value(f"{prefix}_termination_duration_seconds_sum", **pool) == 12
    assert scraped.value(f"{prefix}_lifetime_duration_seconds_sum", **pool) == 3600
    of = {"provisioner": "default"}
    assert scraped.value(f"{prefix}_terminated", **of) == old
    assert scraped.value(f"{prefix}_termination_time_seconds_count", **of) == old
