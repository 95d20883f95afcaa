"""What the judging of a promise finds, and how long a healthy cluster may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from shared.domain.durations import go_duration_seconds
from shared.errors import ConfigurationError

APART_SECONDS = 30.0
"""Time between two readings: of each other, and of those that must both show a finding without an age of its own."""


@dataclass(frozen=True)
class Finding:
    """``subject``: the object's key. ``found``: what is wrong, one clause. ``next_step``: a command, or what to do.

    ``since``: seconds since the epoch; None when no object says it. ``twice``: it counts when two readings show it,
    because an object may have changed between two lists. ``version``: what must be the same in both. ``counts``: False
    for what is named only, such as a pod that a person's wish holds.
    """

    subject: str
    found: str
    next_step: str
    since: float | None = None
    twice: bool = False
    version: str = ""
    counts: bool = True


@dataclass(frozen=True)
class Graces:
    """Seconds that a healthy cluster may take, by the age of the objects themselves."""

    instance: float = 120.0
    """An instance without a machine, since its LaunchTime: EC2 may list it before its machine names it."""
    lost: float = 600.0
    """A machine without an instance, since EC2 ended the instance or, where it is not listed, since the launch. The
    launcher searches every two minutes."""
    node: float = 120.0
    """A node without a machine, since its creation; a machine without a node, since it was registered."""
    launch: float = 600.0
    """A machine without an instance, since its condition Launched: LAUNCH_TIMEOUT and 300 s."""
    registration: float = 1200.0
    """A launched machine whose node has not joined, since its condition Registered: REGISTRATION_TIMEOUT and 300 s."""
    initialization: float = 1200.0
    """A node that has joined and is not ready for pods, since it was registered."""
    deletion: float = 1200.0
    """A deletion, since its last step: its order, a pod's end, a condition, the end of terminationGracePeriod."""
    record: float = 900.0
    """A launch record, since its creation: LAUNCH_TIMEOUT and 600 s."""
    message: float = 900.0
    """A message that a service has not handled, since it was sent."""
    heartbeat: float = 60.0
    """The mirror, since its writer's last heartbeat."""
    apart: float = APART_SECONDS

    def at_most(self, seconds: float) -> Graces:
        """No grace is longer than ``seconds``: what a healthy cluster shows for a moment may count then. The mirror's
        heartbeat keeps its own, because between two of them nothing is wrong."""
        names = [one.name for one in fields(self) if one.name != "heartbeat"]
        return replace(self, **{name: min(getattr(self, name), seconds) for name in names})


def graces_of(variables: Mapping[str, str], at_most: str = "") -> Graces:
    """With the launcher's time limits, where the variables have them. Raises ConfigurationError for no duration."""
    launch = _seconds(variables, "LAUNCH_TIMEOUT", 300.0)
    registration = _seconds(variables, "REGISTRATION_TIMEOUT", 900.0)
    graces = Graces(
        launch=launch + 300.0, record=launch + 600.0, registration=registration + 300.0,
        initialization=registration + 300.0,
    )  # fmt: skip
    return graces.at_most(duration("--grace", at_most)) if at_most else graces


def duration(name: str, text: str) -> float:
    """Seconds. Raises ConfigurationError, which names ``name``."""
    seconds = go_duration_seconds(text)
    if seconds is None:
        raise ConfigurationError(f"{name}={text!r} is no duration; write for example 90s or 10m")
    return seconds


def _seconds(variables: Mapping[str, str], name: str, usual: float) -> float:
    text = variables.get(name, "")
    return duration(name, text) if text else usual
