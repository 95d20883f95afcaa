"""The benchmark of a cluster at rest counts requests by the metrics pages of services."""

from __future__ import annotations

from bench.over_time.at_rest import counted, per_minute
from shared.metrics import Metrics


def page(lists: int, calls: int) -> str:
    """A service's page after so many lists and calls of AWS."""
    metrics = Metrics("launcher")
    for _ in range(lists):
        metrics.count_server_request(("list", "", "v1", "Node", ""), "GET", "a:443", 200, 0.1)
    for _ in range(calls):
        metrics.count_aws_request("EC2", "DescribeInstances", 200, 0.1)
    return metrics.text().decode()


def test_requests_a_minute_are_told_by_receiver() -> None:
    found = per_minute(counted(page(2, 1)), counted(page(10, 4)), 120.0)
    assert found == {"API server requests/min": 4.0, "AWS requests/min": 1.5}


def test_a_process_without_a_page_has_no_count() -> None:
    assert set(per_minute(None, None, 60.0).values()) == {None}
