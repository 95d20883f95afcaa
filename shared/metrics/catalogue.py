"""Every metric of the product in one registry per service; docs/operating/metrics.md lists them.

Each service serves all names; only the metrics that it writes have values.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, generate_latest

from shared.distribution.version import VERSION
from shared.metrics.cloud import DEADLINES, CloudMetrics
from shared.metrics.cluster import CLUSTER
from shared.metrics.conditions import CONDITIONS, ConditionMetrics
from shared.metrics.declaring import Declarations, Declared
from shared.metrics.disruption import DisruptionMetrics
from shared.metrics.health import HealthMetrics
from shared.metrics.machines import MachineMetrics
from shared.metrics.nodes import NodeMetrics
from shared.metrics.pods import OF_PODS, PodMetrics
from shared.metrics.requests import RequestMetrics
from shared.metrics.scheduling import RecordMetrics, SchedulingMetrics
from shared.metrics.watching import WatchMetrics
from shared.metrics.work import EVERY_SERVICE, WorkMetrics


class Metrics(
    MachineMetrics,
    NodeMetrics,
    PodMetrics,
    DisruptionMetrics,
    SchedulingMetrics,
    RecordMetrics,
    CloudMetrics,
    ConditionMetrics,
    WatchMetrics,
    WorkMetrics,
    RequestMetrics,
    HealthMetrics,
):
    """The metrics of one service, in a separate registry because five services may share a process."""

    def __init__(self, service: str, *, commit: str = "") -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self._declarations = declare = Declarations(self.registry)
        self._pages: list[Callable[[], str]] = []
        self._declare_service(declare.by(EVERY_SERVICE), service, commit)
        MachineMetrics.__init__(self, declare)
        NodeMetrics.__init__(self, declare)
        PodMetrics.__init__(self, declare)
        DisruptionMetrics.__init__(self, declare.by("scheduler"))
        SchedulingMetrics.__init__(self, declare.by("scheduler"))
        RecordMetrics.__init__(self, declare.by("scheduler"))
        CloudMetrics.__init__(self, declare, service)
        ConditionMetrics.__init__(self, declare.by("watcher"))
        WatchMetrics.__init__(self, declare.by("watcher"))
        WorkMetrics.__init__(self, declare)
        RequestMetrics.__init__(self, declare)
        HealthMetrics.__init__(self, declare, service)
        declare.served(CLUSTER)
        declare.served(CONDITIONS)
        declare.served((DEADLINES,))
        declare.served(OF_PODS)

    @property
    def declared(self) -> tuple[Declared, ...]:
        """All metrics."""
        return tuple(self._declarations.declared)

    def add_page(self, page: Callable[[], str]) -> None:
        """Serves also the Prometheus text that ``page`` returns. It is called in another thread, at each scrape."""
        self._pages.append(page)

    def text(self) -> bytes:
        """The whole answer to a scrape. Slow in a large cluster: call it in a thread."""
        # Joining bytes, unlike joining text, releases the interpreter lock.
        return b"".join(
            (generate_latest(self.registry), *(page().encode() for page in self._pages))
        )

    def _declare_service(self, declare: Declarations, service: str, commit: str) -> None:
        build = declare.gauge(
            "karpenter_build_info",
            "Constant 1; commit: seven characters, if known.",
            "service", "version", "commit",
        )  # fmt: skip
        build.labels(service, VERSION, commit).set(1)
        self.loop_failures = declare.counter(
            "dovetail_loop_failures_total",
            "Times a supervised loop ended with an error.",
            "loop",
        )
        self.resync_found_work = declare.by("launcher, terminator").counter(
            "dovetail_resync_found_work_total",
            "Work found only by the periodic resync, because its message was lost; normally about zero.",
            "loop",
        )
