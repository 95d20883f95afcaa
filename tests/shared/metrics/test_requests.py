"""Requests, under the names that operators know from client-go and the AWS SDK for Go."""

from __future__ import annotations

from shared.metrics import Metrics
from tests.support.metrics.pages import Scraped


def test_requests_to_the_api_server() -> None:
    metrics = Metrics("watcher")
    target = ("patch", "karpenter.sh", "v1", "NodeClaim", "status")
    metrics.count_server_request(target, "PATCH", "10.0.0.1:443", 200, 0.5)
    metrics.count_server_request(target, "PATCH", "10.0.0.1:443", 0, 1.0)
    scraped = Scraped(metrics.text())
    assert scraped.of("client_go_request_total", "code") == {"200": 1, "<error>": 1}
    assert scraped.of("rest_client_requests_total", "host") == {"10.0.0.1:443": 1}
    labels = ("verb", "group", "version", "kind", "subresource")
    of = dict(zip(labels, target, strict=True))
    assert scraped.value("client_go_request_duration_seconds_sum", **of) == 1.5


def test_requests_to_aws_and_their_attempts() -> None:
    metrics = Metrics("launcher")
    for status in (503, 200):
        metrics.count_aws_attempt("ec2", "DescribeSubnets", status, 0.5)
    metrics.count_aws_request("ec2", "DescribeSubnets", 200, 1.5)
    scraped = Scraped(metrics.text())
    assert scraped.of("aws_sdk_go_request_attempt_total", "code") == {"503": 1, "200": 1}
    of = {"service": "EC2", "action": "DescribeSubnets", "code": "200"}
    assert scraped.value("aws_sdk_go_request_total", **of) == 1
    assert scraped.value("aws_sdk_go_request_duration_seconds_sum", **of) == 1.5
