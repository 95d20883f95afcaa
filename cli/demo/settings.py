"""The durations that the demo shortens. All of them are printed before the scenario starts.

On EC2 the pods of a new instance run after 30 to 60 seconds, and the original manifests remove an empty node after 30
seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from local.stack_plan import StackSettings

_USUAL = {"VALIDATION_DELAY": "15s", "DISRUPTION_PERIOD": "10s", "NOMINATION_MINIMUM": "10s"}


@dataclass(frozen=True)
class DemoSettings:
    """Durations in seconds."""

    boot_seconds: float = 5.0
    ready_seconds: float = 1.0
    ttl_seconds_after_empty: int = 10
    expire_seconds: int = 20
    """Maximum age of nodes in the scenario ``expire``."""
    batch_max_seconds: float = 10.0
    validation_seconds: float = 3.0
    disruption_period_seconds: float = 2.0

    def rows(self) -> list[tuple[str, str, str]]:
        """(name, value in the demo, usual value), for the printed table and the report."""
        return [
            ("BOOT_SECONDS", f"{self.boot_seconds:g}", "about 40 on EC2"),
            ("READY_SECONDS", f"{self.ready_seconds:g}", "5 to 20 on EC2"),
            ("ttlSecondsAfterEmpty", str(self.ttl_seconds_after_empty), "30 in the seeds"),
            ("BATCH_IDLE_DURATION", "1s", "1s"),
            ("BATCH_MAX_DURATION", f"{self.batch_max_seconds:g}s", "10s"),
            *((name, value, _USUAL[name]) for name, value in self.services().items()),
        ]

    def services(self) -> dict[str, str]:
        """Variables of the services that shorten disruption."""
        return {
            "VALIDATION_DELAY": f"{self.validation_seconds:g}s",
            "DISRUPTION_PERIOD": f"{self.disruption_period_seconds:g}s",
            "NOMINATION_MINIMUM": f"{2 * self.batch_max_seconds:g}s",
        }

    def stack(
        self, directory: Path, *, port_base: int | None = None, one_process: bool = False
    ) -> StackSettings:
        """The settings of the local stack for the scenario."""
        return StackSettings(
            directory=directory,
            port_base=port_base,
            one_process=one_process,
            console=True,
            boot_seconds=self.boot_seconds,
            ready_seconds=self.ready_seconds,
            batch_max_duration=f"{self.batch_max_seconds:g}s",
            extra=self.services(),
        )
