"""What is done about a lifecycle hook, when it gets a heartbeat, and when it is completed: pure (INT-41).

What may go wrong: the hook's own times are unknown, because the role may not read them. Then the shortest that EC2 Auto
Scaling allows is assumed, and the setting alone bounds the drain.
"""

from __future__ import annotations

from enum import Enum, auto

from shared.cloud.autoscaling import HookTimes
from shared.domain.machines.lifecycle_actions import Hook, LifecycleAction
from shared.domain.pools.nodepools import CORDON, DRAIN, IGNORE
from shared.settings import InterruptionSettings


class HookStep(Enum):
    """What a hook that still waits needs now."""

    HEARTBEAT = auto()
    COMPLETE = auto()
    NOTHING = auto()


SHORTEST_HEARTBEAT_SECONDS = 30.0
"""No hook has a shorter heartbeat timeout."""
MARGIN_SHARE, LONGEST_MARGIN_SECONDS = 0.1, 60.0
"""A drain ends this much before its hook does, so that Dovetail completes the hook and not its timeout."""
GIVE_UP_SECONDS = 5.0
"""How long past its end a drain is waited for; after that its terminator must be away."""


def step_for_hook(settings: InterruptionSettings) -> str:
    """IGNORE, CORDON or DRAIN: what to do with a node that its auto scaling group ends; in a dry run, what would be."""
    desired = settings.lifecycle_hooks if settings.self_managed_nodes else IGNORE
    return CORDON if desired == DRAIN and settings.interruption_mode == CORDON else desired


def timing(
    times: HookTimes | None, *, at: float, heartbeat: float, limit: float
) -> tuple[float, float]:
    """(until, heartbeat seconds) of a wait that began at ``at``; ``heartbeat`` and ``limit``: the settings, in seconds.

    Without heartbeats a hook waits for one heartbeat timeout; with them for its global timeout.
    """
    shortest = SHORTEST_HEARTBEAT_SECONDS if times is None else times.heartbeat_seconds
    every = min(heartbeat, shortest / 2)
    if times is not None:
        longest = times.global_seconds if every else times.heartbeat_seconds
        limit = min(limit, longest - min(longest * MARGIN_SHARE, LONGEST_MARGIN_SECONDS))
    return at + limit, every


def due(
    action: LifecycleAction, hook: Hook, *, drained: bool, last_beat: float, now: float
) -> HookStep:
    """What one hook that still waits needs now. All times since the epoch."""
    if drained or now >= action.until + GIVE_UP_SECONDS:
        return HookStep.COMPLETE
    beats = hook.heartbeat_seconds > 0 and now >= last_beat + hook.heartbeat_seconds
    return HookStep.HEARTBEAT if beats else HookStep.NOTHING
