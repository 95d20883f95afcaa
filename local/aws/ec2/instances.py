"""EC2 instances: what is known of one, the inventory of all, and their way from pending to
terminated.

moto's own instances scan every tag and every reservation on each call, so the emulator keeps its
own. All changes happen under one lock; callers see a consistent list. Terminated instances stay
visible for a while, as on EC2, and are then forgotten.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from random import Random

from local.aws.catalogue.types import InstanceTypeFacts
from local.aws.clock.timers import Timers
from local.aws.settings import Behaviour
from shared.concurrency.clock import Clock

STATE_CODES = {
    "pending": 0,
    "running": 16,
    "shutting-down": 32,
    "terminated": 48,
    "stopping": 64,
    "stopped": 80,
}
ENDING = frozenset({"shutting-down", "terminated"})

USER_SHUTDOWN = (
    "Client.UserInitiatedShutdown",
    "Client.UserInitiatedShutdown: User initiated shutdown",
)
SPOT_TERMINATION = (
    "Server.SpotInstanceTermination",
    "Server.SpotInstanceTermination: Spot instance termination",
)
KMS_FAILURE = ("Client.InternalError", "Client.InternalError: Client error on launch")


PAST_LIMIT = 32
"""Most earlier looks of one instance that a describe lag may still show."""


@dataclass(frozen=True, slots=True)
class _Past:
    """How an instance looked until ``until`` (monotonic)."""

    until: float
    state: str
    state_reason: tuple[str, str] | None
    tags: dict[str, str]


@dataclass(slots=True)
class Instance:
    """One EC2 instance. ``sequence`` grows with every launch and is what paging continues from."""

    instance_id: str
    sequence: int
    reservation_id: str
    owner_id: str
    region: str
    facts: InstanceTypeFacts
    zone: str
    zone_id: str
    subnet_id: str
    vpc_id: str
    private_ip: str
    image_id: str
    lifecycle: str
    security_groups: tuple[tuple[str, str], ...]
    tags: dict[str, str]
    launched_at: float
    launched_monotonic: float
    image_name: str = ""
    instance_profile: tuple[str, str] | None = None
    user_data: str | None = None
    client_token: str = ""
    key_name: str | None = None
    ebs_optimized: bool = False
    capacity_reservation_id: str = ""
    placement_group: tuple[str, str] = ("", "")
    """Name and id, as the launch gave them."""
    metadata_options: dict[str, str] = field(default_factory=dict)
    volumes: tuple[tuple[str, str], ...] = ()
    state: str = "pending"
    state_reason: tuple[str, str] | None = None
    terminated_monotonic: float | None = None
    past: deque[_Past] = field(default_factory=lambda: deque(maxlen=PAST_LIMIT))

    @property
    def instance_type(self) -> str:
        """Such as ``m5.large``."""
        return self.facts.name

    @property
    def private_dns_name(self) -> str:
        """The resource-name-free form, ``ip-10-0-0-1.<region>.compute.internal``."""
        suffix = "ec2" if self.region == "us-east-1" else f"{self.region}.compute"
        return f"ip-{self.private_ip.replace('.', '-')}.{suffix}.internal"

    def at(self, monotonic: float) -> Instance:
        """This instance as it looked at that time, as far as it is remembered."""
        for past in self.past:
            if past.until > monotonic:
                return replace(
                    self, state=past.state, state_reason=past.state_reason, tags=past.tags
                )
        return self


class Inventory:
    """Every instance by id, in launch order."""

    def __init__(
        self,
        clock: Clock,
        behaviour: Behaviour,
        timers: Timers,
        *,
        on_change: Callable[[Instance, str], None],
        on_terminated: Callable[[Instance], None],
        on_forgotten: Callable[[Instance], None],
    ) -> None:
        """``on_change`` gets the entered state on the timer thread; the others run at once."""
        self.lock = threading.RLock()
        self._clock = clock
        self._behaviour = behaviour
        self._timers = timers
        self._instances: dict[str, Instance] = {}
        self._on_change = on_change
        self._on_terminated = on_terminated
        self._on_forgotten = on_forgotten

    def add(self, instance: Instance, *, fails_at_once: bool = False) -> None:
        """Take a new pending instance in. One that ``fails_at_once`` ends instead of running
        (LCH-67).
        """
        with self.lock:
            self._instances[instance.instance_id] = instance
            self._announce(instance)
            if fails_at_once:
                instance.state_reason = KMS_FAILURE
                self._later(0, instance, "pending", "terminated")
            else:
                self._later(
                    self._behaviour.instance_pending_seconds, instance, "pending", "running"
                )

    def get(self, instance_id: str) -> Instance | None:
        """None when unknown or forgotten."""
        return self._instances.get(instance_id)

    def all(self) -> list[Instance]:
        """A snapshot in launch order. Without the lock: copying a dict's values is one step in
        CPython.
        """
        return list(self._instances.values())

    def visible(self, region: str) -> list[Instance]:
        """The instances that a call may name: this region, minus launches younger than the
        describe lag.
        """
        here = [instance for instance in self.all() if instance.region == region]
        if self._behaviour.describe_lag_seconds <= 0:
            return here
        now = self._clock.monotonic()
        return [one for one in here if one.launched_monotonic <= now - self.lag(one)]

    def lag(self, instance: Instance) -> float:
        """Seconds by which describe calls are behind this instance."""
        most, seed = self._behaviour.describe_lag_seconds, self._behaviour.describe_lag_seed
        return most if seed is None else Random(f"{seed}/{instance.sequence}").random() * most

    def described(self, instances: Iterable[Instance]) -> list[Instance]:
        """How describe calls show them: state and tags as they were a describe lag ago."""
        if self._behaviour.describe_lag_seconds <= 0:
            return list(instances)
        now = self._clock.monotonic()
        return [instance.at(now - self.lag(instance)) for instance in instances]

    def remember(self, instance: Instance) -> None:
        """Keep the present look, for describe calls that lag behind the change that follows."""
        if self._behaviour.describe_lag_seconds > 0:
            now, tags = self._clock.monotonic(), dict(instance.tags)
            instance.past.append(_Past(now, instance.state, instance.state_reason, tags))

    def missing(self, instance_ids: Iterable[str], region: str) -> list[str]:
        """Those ids that describe calls do not know (yet)."""
        visible = {instance.instance_id for instance in self.visible(region)}
        return [instance_id for instance_id in instance_ids if instance_id not in visible]

    def terminate(self, instance: Instance, reason: tuple[str, str] = USER_SHUTDOWN) -> str:
        """Begin the end; returns the state before. Repeating it changes nothing."""
        with self.lock:
            previous = instance.state
            if previous not in ENDING:
                self.remember(instance)
                instance.state_reason = reason
                self._enter(instance, "shutting-down")
                seconds = self._behaviour.instance_shutting_down_seconds
                self._later(seconds, instance, "shutting-down", "terminated")
            return previous

    def stop(self, instance: Instance, reason: tuple[str, str] = USER_SHUTDOWN) -> str:
        """Begin to stop; returns the state before. Only a pending or running instance stops."""
        with self.lock:
            previous = instance.state
            if previous in {"pending", "running"}:
                self.remember(instance)
                instance.state_reason = reason
                self._enter(instance, "stopping")
                seconds = self._behaviour.instance_shutting_down_seconds
                self._later(seconds, instance, "stopping", "stopped")
            return previous

    def start(self, instance: Instance) -> str:
        """Start a stopped instance; returns the state before."""
        with self.lock:
            previous = instance.state
            if previous == "stopped":
                self.remember(instance)
                instance.state_reason = None
                self._enter(instance, "pending")
                self._later(
                    self._behaviour.instance_pending_seconds, instance, "pending", "running"
                )
            return previous

    def clear(self) -> None:
        """Forget everything without ceremony."""
        with self.lock:
            self._instances.clear()

    def _later(self, seconds: float, instance: Instance, expected: str, state: str) -> None:
        self._timers.after(seconds, lambda: self._advance(instance, expected, state))

    def _advance(self, instance: Instance, expected: str, state: str) -> None:
        """Change the state unless something else changed it meanwhile."""
        with self.lock:
            known = self._instances.get(instance.instance_id) is instance
            if known and instance.state == expected:
                self.remember(instance)
                self._enter(instance, state)

    def _enter(self, instance: Instance, state: str) -> None:
        instance.state = state
        if state == "terminated":
            instance.terminated_monotonic = self._clock.monotonic()
            self._on_terminated(instance)
            seconds = self._behaviour.terminated_visible_seconds
            self._timers.after(seconds, lambda: self._forget(instance))
        self._announce(instance)

    def _announce(self, instance: Instance) -> None:
        state = instance.state
        self._timers.after(0, lambda: self._on_change(instance, state))

    def _forget(self, instance: Instance) -> None:
        with self.lock:
            if self._instances.get(instance.instance_id) is instance:
                del self._instances[instance.instance_id]
                self._on_forgotten(instance)
