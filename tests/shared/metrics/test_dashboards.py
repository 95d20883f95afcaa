"""Karpenter's published dashboards find what they ask for: each name is declared with its labels."""

from __future__ import annotations

import pytest

from shared.metrics import Metrics
from shared.metrics.declaring import HISTOGRAM, SUMMARY
from tests.support.metrics.dashboards import QUERIES, Query

PARTS = {HISTOGRAM: ("_bucket", "_count", "_sum"), SUMMARY: ("", "_count", "_sum")}
OWN_LABELS = {HISTOGRAM: ("le",), SUMMARY: ("quantile",)}
SERVED = {
    one.name + part: {*one.labels, *OWN_LABELS.get(one.kind, ())}
    for one in Metrics("test").declared
    for part in PARTS.get(one.kind, ("",))
}


@pytest.mark.parametrize("query", QUERIES, ids=lambda one: f"{one.dashboard}: {one.panel}")
def test_a_query_of_a_dashboard_finds_its_metric(query: Query) -> None:
    assert set(query.labels) <= SERVED[query.name]
