"""When a lifecycle hook is told to wait on, and when it is ended: pure (INT-41).

What may go wrong: the hook's own times are unknown, because we may not ask. Then the shortest that EC2 Auto Scaling
allows is assumed, and the setting alone bounds the drain.
"""

from __future__ import annotations

from shared.cloud.autoscaling import HookTimes
from shared.domain.lifecycle_actions import Hook, LifecycleAction

BEAT, COMPLETE, REST = "beat", "complete", "rest"
SHORTEST_HEARTBEAT_SECONDS = 30.0
"""No hook has a shorter heartbeat timeout."""
MARGIN_SHARE, LONGEST_MARGIN_SECONDS = 0.1, 60.0
"""A drain ends this much before its hook does, so that the end is ours to tell."""
GIVE_UP_SECONDS = 5.0
"""A drain that is not over this long after its end is not waited for: its terminator is away."""


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


def due(action: LifecycleAction, hook: Hook, *, drained: bool, last_beat: float, now: float) -> str:
    """What one hook that still waits needs now. All times since the epoch."""
    if drained or now >= action.until + GIVE_UP_SECONDS:
        return COMPLETE
    beats = hook.heartbeat_seconds > 0 and now >= last_beat + hook.heartbeat_seconds
    return BEAT if beats else REST
