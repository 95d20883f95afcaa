"""When emptiness and consolidation wait, as with Cluster Autoscaler's delays: pure.

The machines themselves say when the last one was created or deleted. A scheduler that begins to lead knows of no
earlier failure, and of deletions only those that are not over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shared.concurrency.clock import credible
from shared.domain.machines.machine import Machine
from shared.domain.workloads.scale_down import ScaleDownRules
from shared.settings import SchedulerSettings


def rules_of(settings: SchedulerSettings) -> ScaleDownRules:
    """Which nodes stay and which pods count."""
    share = settings.scale_down_utilization_threshold
    return ScaleDownRules(
        honors_annotations=settings.cluster_autoscaler_annotations,
        keeps_local_storage=settings.skip_nodes_with_local_storage,
        keeps_system_pods=settings.skip_nodes_with_system_pods,
        threshold_percent=round(share * 100) if share else None,
    )


@dataclass
class LastChanges:
    """When machines last came and went, in seconds since the epoch; 0: not known."""

    added: float = 0.0
    deleted: float = 0.0
    failed: float = 0.0

    def note(self, machines: Iterable[Machine]) -> None:
        """The machines as they are now."""
        for machine in machines:
            self.added = max(self.added, machine.created_at)
            self.deleted = max(self.deleted, machine.deleted_at)

    def wait(self, settings: SchedulerSettings, *, now: float) -> str:
        """Why emptiness and consolidation wait now; empty: they do not."""
        for what, at, seconds in (
            ("a machine was created", self.added, settings.scale_down_delay_after_add),
            ("a machine was deleted", self.deleted, settings.scale_down_delay_after_delete),
            ("a disruption was rolled back", self.failed, settings.scale_down_delay_after_failure),
        ):
            at = credible(at, now=now, otherwise=0.0)
            if seconds and at and now < at + seconds:
                return (
                    f"{what} {max(0.0, now - at):.0f} s ago; the next node goes after {seconds:g} s"
                )
        return ""
