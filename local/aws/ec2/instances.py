"""EC2 instances: their data, the inventory of all instances, and their states from pending to terminated.

moto's own instances scan every tag and every reservation on each call, so the emulator keeps its own. All changes
happen under one lock, so callers see a consistent list. Terminated instances stay visible for a while, as on EC2, and
are then deleted.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Set
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
TERMINATION_STATES = frozenset({"shutting-down", "terminated"})

USER_SHUTDOWN = (
    "Client.UserInitiatedShutdown",
    "Client.UserInitiatedShutdown: User initiated shutdown",
)
SPOT_TERMINATION = (
    "Server.SpotInstanceTermination",
    "Server.SpotInstanceTermination: Spot instance termination",
)
KMS_FAILURE = ("Client.InternalError", "Client.InternalError: Client error on launch")


PAST_STATES_LIMIT = 32
"""Most earlier states of one instance that are kept for the describe lag."""


@dataclass(frozen=True, slots=True)
class _Past:
    """The state of an instance until ``until`` (monotonic)."""

    until: float
    state: str
    state_reason: tuple[str, str] | None
    tags: dict[str, str]


@dataclass(slots=True)
class Instance:
    """One EC2 instance. ``sequence`` grows with every launch; paging continues from it."""

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
    """Name and id; empty for none."""
    tenancy: str = "default"
    monitoring: bool = False
    metadata_options: dict[str, str] = field(default_factory=dict)
    volumes: tuple[tuple[str, str], ...] = ()
    """Device name and id of those it was launched with."""
    largest_volume_gib: int = 0
    state: str = "pending"
    state_reason: tuple[str, str] | None = None
    changed_at: float = 0.0
    """When its last stop or termination was ordered, in seconds since the epoch; 0: never."""
    terminated_monotonic: float | None = None
    past: deque[_Past] = field(default_factory=lambda: deque(maxlen=PAST_STATES_LIMIT))

    @property
    def instance_type(self) -> str:
        """The type's name, such as ``m5.large``."""
        return self.facts.name

    @property
    def private_dns_name(self) -> str:
        """The host name by address, ``ip-10-0-0-1.<region>.compute.internal``."""
        suffix = "ec2" if self.region == "us-east-1" else f"{self.region}.compute"
        return f"ip-{self.private_ip.replace('.', '-')}.{suffix}.internal"

    def at(self, monotonic: float) -> Instance:
        """This instance in its state at that time, as far as earlier states are kept."""
        for past in self.past:
            if past.until > monotonic:
                return replace(
                    self, state=past.state, state_reason=past.state_reason, tags=past.tags
                )
        return self


@dataclass(frozen=True, slots=True)
class Inventory:
    """Every instance by id, in launch order."""

    clock: Clock
    behaviour: Behaviour
    timers: Timers
    on_change: Callable[[Instance, str], None]
    """Gets the entered state on the timer thread; the other callbacks run at once."""
    on_terminated: Callable[[Instance], None]
    on_forgotten: Callable[[Instance], None]
    lock: threading.RLock = field(default_factory=threading.RLock)
    _instances: dict[str, Instance] = field(default_factory=dict)

    def add(self, instance: Instance, *, fails_at_once: bool = False) -> None:
        """Add a new pending instance. An instance that ``fails_at_once`` terminates instead of running (LCH-67)."""
        with self.lock:
            self._instances[instance.instance_id] = instance
            self._hide_tags(instance)
            self._announce(instance)
            if fails_at_once:
                instance.state_reason = KMS_FAILURE
                self.timers.after(0, lambda: self._advance(instance, "pending", "terminated"))
            else:
                self._later(instance, "pending", "running")

    def get(self, instance_id: str) -> Instance | None:
        """The instance; None when it is unknown or was deleted."""
        return self._instances.get(instance_id)

    def all(self) -> list[Instance]:
        """A snapshot in launch order. It needs no lock, because copying a dict's values is atomic in CPython."""
        return list(self._instances.values())

    def visible(self, region: str) -> list[Instance]:
        """The instances that a call may name: those of the region, except launches younger than the describe lag."""
        here = [instance for instance in self.all() if instance.region == region]
        if self.behaviour.describe_lag_seconds <= 0:
            return here
        now = self.clock.monotonic()
        return [one for one in here if one.launched_monotonic <= now - self.lag(one)]

    def lag(self, instance: Instance) -> float:
        """Seconds by which describe calls are behind this instance."""
        most, seed = self.behaviour.describe_lag_seconds, self.behaviour.describe_lag_seed
        return most if seed is None else Random(f"{seed}/{instance.sequence}").random() * most

    def described(self, instances: Iterable[Instance]) -> list[Instance]:
        """The instances as describe calls show them: with the state and tags of one describe lag ago."""
        if not self._lags():
            return list(instances)
        now = self.clock.monotonic()
        return [instance.at(now - self.lag(instance)) for instance in instances]

    def _lags(self) -> bool:
        return self.behaviour.describe_lag_seconds > 0 or self.behaviour.tag_lag_seconds > 0

    def _hide_tags(self, instance: Instance) -> None:
        """Show a new instance without its tags until they, too, are known everywhere."""
        most = self.behaviour.tag_lag_seconds
        if most > 0:
            until = self.clock.monotonic() + Random(f"tags/{instance.sequence}").random() * most
            instance.past.append(_Past(until, instance.state, None, {}))

    def remember(self, instance: Instance) -> None:
        """Keep the current state before a change, for describe calls that lag behind it."""
        if self._lags():
            now, tags = self.clock.monotonic(), dict(instance.tags)
            instance.past.append(_Past(now, instance.state, instance.state_reason, tags))

    def missing(self, instance_ids: Iterable[str], region: str) -> list[str]:
        """The ids that describe calls do not know yet."""
        visible = {instance.instance_id for instance in self.visible(region)}
        return [instance_id for instance_id in instance_ids if instance_id not in visible]

    def terminate(self, instance: Instance, reason: tuple[str, str] = USER_SHUTDOWN) -> str:
        """Start the termination and return the previous state. A second call changes nothing."""
        alive = STATE_CODES.keys() - TERMINATION_STATES
        return self._pass_through(instance, alive, "shutting-down", "terminated", reason)

    def stop(self, instance: Instance) -> str:
        """Start to stop and return the previous state. Only a pending or running instance stops."""
        stoppable = {"pending", "running"}
        return self._pass_through(instance, stoppable, "stopping", "stopped", USER_SHUTDOWN)

    def start(self, instance: Instance) -> str:
        """Start a stopped instance and return the previous state."""
        return self._pass_through(instance, {"stopped"}, "pending", "running", None)

    def _pass_through(
        self,
        instance: Instance,
        accepted: Set[str],
        passing: str,
        final: str,
        reason: tuple[str, str] | None,
    ) -> str:
        """Enter the state ``passing`` now and ``final`` later, from an accepted state only. Returns the previous
        state.
        """
        with self.lock:
            previous = instance.state
            if previous in accepted:
                self.remember(instance)
                instance.state_reason = reason
                instance.changed_at = self.clock.now() if reason else 0.0
                self._enter(instance, passing)
                self._later(instance, passing, final)
            return previous

    def clear(self) -> None:
        """Delete every instance without events."""
        with self.lock:
            self._instances.clear()

    def _later(self, instance: Instance, passing: str, final: str) -> None:
        ending = self.behaviour.instance_shutting_down_seconds
        seconds = self.behaviour.instance_pending_seconds if passing == "pending" else ending
        self.timers.after(seconds, lambda: self._advance(instance, passing, final))

    def _advance(self, instance: Instance, expected: str, state: str) -> None:
        """Enter a state, unless the instance left the expected state in the meantime."""
        with self.lock:
            known = self._instances.get(instance.instance_id) is instance
            if known and instance.state == expected:
                self.remember(instance)
                self._enter(instance, state)

    def _enter(self, instance: Instance, state: str) -> None:
        instance.state = state
        if state == "terminated":
            instance.terminated_monotonic = self.clock.monotonic()
            self.on_terminated(instance)
            seconds = self.behaviour.terminated_visible_seconds
            self.timers.after(seconds, lambda: self._forget(instance))
        self._announce(instance)

    def _announce(self, instance: Instance) -> None:
        state = instance.state
        self.timers.after(0, lambda: self.on_change(instance, state))

    def _forget(self, instance: Instance) -> None:
        with self.lock:
            if self._instances.get(instance.instance_id) is instance:
                del self._instances[instance.instance_id]
                self.on_forgotten(instance)
