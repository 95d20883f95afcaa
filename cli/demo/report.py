"""The outcome of a scenario: the JSON document of ``--report`` (docs/spec/design.md) and the data of the last tables.

``pods`` and ``nodes`` are those at the time when the workload was complete: at the end none are left. ``launched``
counts all instances that were launched, ``terminated`` those that were terminated.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.demo import cluster_autoscaler
from cli.demo.snapshot import NodeView, hourly
from cli.demo.timeline import Entry, Phase
from shared.errors import ConfigurationError

if TYPE_CHECKING:
    from cli.demo.stage import Check, Stage


@dataclass(frozen=True)
class Report:
    """The outcome of one scenario. Prices are in USD. ``seconds`` excludes the start of the stack."""

    scenario: str
    failure: str
    seconds: float
    pods: tuple[int, int, int]
    nodes: tuple[NodeView, ...]
    launched: int
    terminated: int
    timeline: tuple[Entry, ...]
    phases: tuple[Phase, ...]
    checks: tuple[Check, ...]
    settings: tuple[tuple[str, str, str], ...]
    comparison: cluster_autoscaler.Estimate
    """The estimate for Cluster Autoscaler with the same pods."""

    @property
    def ok(self) -> bool:
        """Whether every phase ended and every check passed."""
        return not self.failure and all(check.ok for check in self.checks)

    @property
    def hourly_cost(self) -> float:
        """The price of all nodes in USD per hour; nodes without a known price count as 0."""
        return round(hourly(self.nodes), 6)

    def to_json(self) -> dict[str, Any]:
        """The document of ``--report``."""
        total, running, pending = self.pods
        return {
            "scenario": self.scenario,
            "ok": self.ok,
            "failure": self.failure,
            "seconds": round(self.seconds, 3),
            "pods": {"total": total, "running": running, "pending": pending},
            "nodes": [_node(node) for node in self.nodes],
            "launched": self.launched,
            "terminated": self.terminated,
            "hourlyCost": self.hourly_cost,
            "timeline": [asdict(entry) for entry in self.timeline],
            "phases": [{"title": p.title, "seconds": p.seconds} for p in self.phases],
            "checks": [asdict(check) for check in self.checks],
            "settings": {name: value for name, value, _elsewhere in self.settings},
            "comparison": {
                "autoscaler": "Cluster Autoscaler",
                "instanceType": cluster_autoscaler.INSTANCE_TYPE,
                "nodes": self.comparison.nodes,
                "podsPerNode": self.comparison.pods_per_node,
                "pending": self.comparison.pending,
            },
        }


def _node(node: NodeView) -> dict[str, Any]:
    return {
        "name": node.name,
        "instanceType": node.instance_type,
        "zone": node.zone,
        "capacityType": node.capacity_type,
        "pricePerHour": node.price_per_hour,
        "pods": node.pods,
    }


def build_report(stage: Stage, failure: str) -> Report:
    """The report at the end of a scenario. ``failure`` is empty if the scenario succeeded."""
    scenario, snapshot = stage.scenario, stage.snapshot
    counted = (snapshot.total, snapshot.running, snapshot.pending)
    return Report(
        scenario=scenario.name,
        failure=failure,
        seconds=stage.timeline.elapsed(),
        pods=stage.pods if stage.nodes or stage.pods[0] else counted,
        nodes=stage.nodes or snapshot.nodes,
        launched=len(stage.launched),
        terminated=stage.terminated,
        timeline=tuple(stage.timeline.entries),
        phases=tuple(stage.timeline.phases),
        checks=tuple(stage.checks),
        settings=tuple(stage.settings.rows()),
        comparison=cluster_autoscaler.estimate(
            stage.pods[0] or scenario.pods, scenario.cpu_milli, scenario.memory_bytes
        ),
    )


def write_report(path: Path, report: Report) -> None:
    """Raises ConfigurationError when the file cannot be written."""
    try:
        path.write_text(json.dumps(report.to_json(), indent=2) + "\n")
    except OSError as error:
        raise ConfigurationError(f"--report {path}: {error}") from error
