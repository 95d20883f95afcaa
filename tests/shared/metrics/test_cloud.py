"""What AWS was asked and what came of its notices (MET-09, MET-10, interruption_* of MET-12)."""

from __future__ import annotations

import pytest

from shared.metrics import Metrics
from tests.support.metrics.pages import Scraped


def test_calls_of_aws_are_counted_with_their_errors() -> None:
    """MET-10: metrics of the cloud."""
    metrics = Metrics("launcher")
    metrics.count_call("CreateFleet", 1.5, "")
    metrics.count_call("CreateFleet", 0.5, "RequestLimitExceeded")
    labels = {"controller": "launcher", "method": "CreateFleet", "provider": "aws"}
    scraped = Scraped(metrics.text())
    assert scraped.value("karpenter_cloudprovider_duration_seconds_sum", **labels) == 2
    errors = scraped.of("karpenter_cloudprovider_errors_total", "error")
    assert errors == {"RequestLimitExceeded": 1}


@pytest.mark.parametrize(("drains", "action"), [(True, "CordonAndDrain"), (False, "NoAction")])
def test_notices_are_counted_by_what_they_came_to(drains: bool, action: str) -> None:
    """MET-12: names of v0.31."""
    metrics = Metrics("interruption")
    metrics.count_action(drains=drains)
    actions = Scraped(metrics.text()).of("karpenter_interruption_actions_performed", "action")
    assert actions == {action: 1}
