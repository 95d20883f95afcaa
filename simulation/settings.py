"""The sizes and times of one run, all in simulated seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SERVICES = ("watcher", "scheduler", "launcher", "terminator", "interruption")
CLUSTER = "simulated"
REGION = "us-west-2"
MIRROR_KEY = "0123456789abcdef0123456789abcdef"
REDIS = ("10.0.0.1", 6379)
API = ("10.0.0.2", 80)
AWS = ("10.0.0.3", 80)
QUIET_SECONDS = 1_200.0
"""The longest time after the last fault until everything that is promised must hold."""


@dataclass(frozen=True)
class RunSettings:
    """``replicas`` of every service; ``minutes`` of users and faults before the quiet end."""

    seed: int
    minutes: float = 5.0
    scenario: str = "mixed"
    replicas: int = 1
    boot_seconds: float = 25.0
    ready_seconds: float = 3.0
    pod_start_seconds: float = 1.0
    kubelet_poll_seconds: float = 2.0
    interruption_notice_seconds: float = 120.0
    batch_idle_seconds: float = 1.0
    batch_max_seconds: float = 10.0
    quiet_seconds: float = QUIET_SECONDS
    records: str = ""
    """The folder in which schedulers record their decisions; empty: they do not."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of all services, beside those of every run."""

    @property
    def seconds(self) -> float:
        """The time with users and faults."""
        return self.minutes * 60.0
