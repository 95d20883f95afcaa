"""Requests to the API server and to AWS, under the names of client-go and the AWS SDK for Go.

``code`` is the HTTP status, or ``<error>`` without an answer. A request to AWS may have several attempts: only reads
are repeated. A request to the API server is counted each time it is sent.
"""

from __future__ import annotations

from typing import NamedTuple

from prometheus_client import Counter, Histogram

from shared.metrics.declaring import Declarations
from shared.metrics.work import EVERY_SERVICE

_CALLERS = "interruption, launcher, terminator"
NO_ANSWER = "<error>"


class _Series(NamedTuple):
    counters: tuple[Counter, ...]
    histograms: tuple[Histogram, ...]


class RequestMetrics:
    """Written by the clients of the API server and of AWS."""

    def __init__(self, declare: Declarations) -> None:
        self._counted: dict[tuple[tuple[str, str, str, str, str], str, str, int], _Series] = {}
        self._declare_server(declare.by(EVERY_SERVICE))
        self._declare_aws(declare.by(_CALLERS))

    def _declare_server(self, declare: Declarations) -> None:
        self._server_requests = declare.counter(
            "client_go_request_total",
            "Requests to the API server by HTTP status and method.",
            "code", "method",
        )  # fmt: skip
        self._server_seconds = declare.histogram(
            "client_go_request_duration_seconds",
            "Time until the API server answers; for a watch until it is open.",
            "verb", "group", "version", "kind", "subresource",
        )  # fmt: skip
        self._rest_requests = declare.counter(
            "rest_client_requests_total",
            "The same as client_go_request_total, by the API server's host too.",
            "code", "method", "host",
        )  # fmt: skip
        self._rest_seconds = declare.histogram(
            "rest_client_request_duration_seconds",
            "The same as client_go_request_duration_seconds, by HTTP method and host.",
            "verb", "host",
        )  # fmt: skip

    def _declare_aws(self, declare: Declarations) -> None:
        labels = ("service", "action", "code")
        self._aws_requests = declare.counter(
            "aws_sdk_go_request_total", "Requests to AWS.", *labels
        )
        self._aws_seconds = declare.histogram(
            "aws_sdk_go_request_duration_seconds",
            "Duration of a request to AWS, including its repetitions and the pauses between them.",
            *labels,
        )
        self._aws_attempts = declare.counter(
            "aws_sdk_go_request_attempt_total",
            "Attempts of requests to AWS.", *labels,
        )  # fmt: skip
        self._aws_attempt_seconds = declare.histogram(
            "aws_sdk_go_request_attempt_duration_seconds",
            "Duration of one attempt of a request to AWS.",
            *labels,
        )

    def count_server_request(
        self, target: tuple[str, str, str, str, str], method: str, host: str, status: int, seconds: float
    ) -> None:  # fmt: skip
        """``target``: verb, group, version, kind, subresource. ``status``: 0 without an answer."""
        key = (target, method, host, status)
        counted = self._counted.get(key) or self._series(*key)
        for counter in counted.counters:
            counter.inc()
        for histogram in counted.histograms:
            histogram.observe(seconds)

    def _series(
        self, target: tuple[str, str, str, str, str], method: str, host: str, status: int
    ) -> _Series:
        """Those of one kind of request, kept: to look four of them up takes as long as all else of a measurement."""
        code = _code(status)
        found = self._counted[target, method, host, status] = _Series(
            (self._server_requests.labels(code, method), self._rest_requests.labels(code, method, host)),
            (self._server_seconds.labels(*target), self._rest_seconds.labels(method, host)),
        )  # fmt: skip
        return found

    def count_aws_request(self, service: str, action: str, status: int, seconds: float) -> None:
        """A request ended, after one or more attempts. ``status``: 0 without an answer."""
        labels = (service.upper(), action, _code(status))
        self._aws_requests.labels(*labels).inc()
        self._aws_seconds.labels(*labels).observe(seconds)

    def count_aws_attempt(self, service: str, action: str, status: int, seconds: float) -> None:
        """One attempt ended. ``status``: 0 without an answer."""
        labels = (service.upper(), action, _code(status))
        self._aws_attempts.labels(*labels).inc()
        self._aws_attempt_seconds.labels(*labels).observe(seconds)


def _code(status: int) -> str:
    return str(status) if status else NO_ANSWER
