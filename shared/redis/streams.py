"""The streams between the services, the consumer groups that read them, and the services that publish on them."""

from __future__ import annotations

PODS = "pods"
CLUSTER = "cluster"
LAUNCHES = "launches"
MACHINES = "machines"
TERMINATIONS = "terminations"
INTERRUPTIONS = "interruptions"

GROUPS: dict[str, tuple[str, ...]] = {
    PODS: ("scheduler",),
    LAUNCHES: ("launcher",),
    MACHINES: ("scheduler", "launcher"),
    TERMINATIONS: ("terminator",),
    INTERRUPTIONS: ("scheduler",),
}
"""Stream -> the services that consume it; each service is one consumer group of the same name."""

PUBLISHERS: dict[str, tuple[str, ...]] = {
    PODS: ("watcher",),
    LAUNCHES: ("scheduler", "watcher"),
    MACHINES: ("launcher", "terminator", "watcher"),
    TERMINATIONS: ("interruption", "launcher", "scheduler", "watcher"),
    INTERRUPTIONS: ("interruption",),
}
"""Stream -> the services that publish on it. ``CLUSTER`` belongs to the mirror: only its writer adds to it."""
