"""Metrics of the loops and consumers of a service, under the names of controller-runtime.

A periodic loop counts as a controller, and each of its passes as a reconciliation. A consumer counts as a controller
whose work queue is its stream, and each message as a reconciliation. A loop without passes, such as a watch, only
counts its failures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from prometheus_client import Counter, Histogram

from shared.metrics.declaring import MONOTONIC, Declarations

EVERY_SERVICE = "interruption, launcher, scheduler, terminator, watcher"
_CONSUMERS = "launcher, scheduler, terminator"
SUCCESS, ERROR, AGAIN = "success", "error", "requeue_after"


class WorkMetrics:
    """``now``: monotonic seconds."""

    def __init__(self, declare: Declarations, now: Callable[[], float] = MONOTONIC) -> None:
        self._now = now
        self._tokens = count()
        self._running: dict[str, dict[int, float]] = {}
        """Controller -> start time of each message that is being handled."""
        self._deep: frozenset[str] | set[str] = frozenset()
        """Consumers whose depth is served."""
        self._counted_turns: dict[str, tuple[Counter, Histogram]] = {}
        """Of each loop, its completed turns and their duration."""
        self._declare_turns(declare.by(EVERY_SERVICE))
        self._declare_messages(declare.by(_CONSUMERS))
        self._declare_running(declare.by(_CONSUMERS))

    def _declare_turns(self, declare: Declarations) -> None:
        self._turns = declare.counter(
            "controller_runtime_reconcile_total",
            "Passes of a loop and messages of a consumer: success, error, or requeue_after when repeated later.",
            "controller", "result",
        )  # fmt: skip
        self._errors = declare.counter(
            "controller_runtime_reconcile_errors_total",
            "Passes and messages that ended with an error.",
            "controller",
        )
        self._leads = declare.by("scheduler, watcher").gauge(
            "leader_election_master_status",
            "1: this process holds the Lease and is active; 0: it is on standby.",
            "name",
        )
        self._panics = declare.counter(
            "controller_runtime_reconcile_panics_total",
            "Passes of a loop that ended with an unexpected error.",
            "controller",
        )
        self._turn_seconds = declare.histogram(
            "controller_runtime_reconcile_time_seconds",
            "Duration of one pass or one message.",
            "controller",
        )

    def _declare_messages(self, declare: Declarations) -> None:
        self._adds = declare.counter(
            "workqueue_adds_total", "Messages whose handling started.", "name", "controller"
        )  # fmt: skip
        self._retries = declare.counter(
            "workqueue_retries_total",
            "Messages that failed or were postponed; they are delivered again.",
            "name", "controller",
        )  # fmt: skip
        self._queue_seconds = declare.histogram(
            "workqueue_queue_duration_seconds",
            "From when a message was written until its handling started.",
            "name", "controller",
        )  # fmt: skip
        self._work_seconds = declare.histogram(
            "workqueue_work_duration_seconds",
            "Duration of the handling of one message.",
            "name", "controller",
        )  # fmt: skip
        self._depth = declare.gauge(
            "workqueue_depth",
            "Messages that are not acknowledged, including those being handled.",
            "name", "controller",
        )  # fmt: skip

    def _declare_running(self, declare: Declarations) -> None:
        self._workers = declare.gauge(
            "controller_runtime_active_workers",
            "Messages that are being handled.",
            "controller",
        )
        self._most_workers = declare.gauge(
            "controller_runtime_max_concurrent_reconciles",
            "Maximum number of messages that a consumer handles at the same time.",
            "controller",
        )
        self._unfinished = declare.gauge(
            "workqueue_unfinished_work_seconds",
            "Sum of the durations of the messages that are being handled.",
            "name", "controller",
        )  # fmt: skip
        self._longest = declare.gauge(
            "workqueue_longest_running_processor_seconds",
            "Longest duration of a message that is being handled.",
            "name", "controller",
        )  # fmt: skip

    def report_leadership(self, lease: str, held: Callable[[], bool]) -> None:
        """``held`` is called at each scrape. Not called without leader election."""
        self._leads.labels(lease).set_function(lambda: float(held()))

    def expect_loop(self, name: str) -> None:
        """Serves the loop's error counters from its start, with the value 0."""
        self._errors.labels(name)
        self._panics.labels(name)

    def count_turn(self, name: str, seconds: float) -> None:
        """A loop completed one pass."""
        counted = self._counted_turns.get(name)
        if counted is None:  # Looking for both takes longer than all else of a measurement.
            counted = self._turns.labels(name, SUCCESS), self._turn_seconds.labels(name)
            self._counted_turns[name] = counted
        counted[0].inc()
        counted[1].observe(seconds)

    def count_failed_turn(self, name: str, *, foreseen: bool) -> None:
        """A loop ended with an error."""
        self._turns.labels(name, ERROR).inc()
        self._errors.labels(name).inc()
        if not foreseen:
            self._panics.labels(name).inc()

    def expect_messages(self, name: str, limit: int) -> None:
        """A consumer started, which handles at most ``limit`` messages at the same time."""
        running = self._running.setdefault(name, {})
        self._most_workers.labels(name).set(limit)
        self._workers.labels(name).set_function(lambda: len(running))
        self._unfinished.labels(name, name).set_function(lambda: sum(self._ages(running)))
        self._longest.labels(name, name).set_function(lambda: max(self._ages(running), default=0.0))
        self._retries.labels(name, name)

    @contextmanager
    def message(self, name: str, waited: float, later: type[Exception]) -> Iterator[None]:
        """Measures the handling of one message. ``waited``: seconds since it was written. ``later``: the error that
        postpones it."""
        token, started, result = next(self._tokens), self._now(), ERROR
        self._adds.labels(name, name).inc()
        self._queue_seconds.labels(name, name).observe(max(0.0, waited))
        self._running[name][token] = started
        try:
            yield
            result = SUCCESS
        except later:
            result = AGAIN
            raise
        finally:
            del self._running[name][token]
            self._count_message(name, result, self._now() - started)

    def set_depth(self, name: str, messages: int | None) -> None:
        """The number of waiting messages of a consumer; None: it stopped."""
        if messages is not None:
            self._depth.labels(name, name).set(messages)
        elif name in self._deep:
            self._depth.remove(name, name)
        self._deep = {*self._deep, name} if messages is not None else self._deep - {name}

    def _count_message(self, name: str, result: str, seconds: float) -> None:
        self._turns.labels(name, result).inc()
        self._turn_seconds.labels(name).observe(seconds)
        self._work_seconds.labels(name, name).observe(seconds)
        if result == ERROR:
            self._errors.labels(name).inc()
        if result != SUCCESS:
            self._retries.labels(name, name).inc()

    def _ages(self, running: dict[int, float]) -> list[float]:
        now = self._now()
        return [now - started for started in list(running.values())]
