"""The emulator's state besides moto's: one object that the actions, the control endpoint and the seed share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES

from local.aws.autoscaling.hooks import AutoScaling
from local.aws.capacity.bill import Bill, pool_of
from local.aws.capacity.reservations import Reservations
from local.aws.capacity.stated import Capacity, Quotas
from local.aws.capacity.supply import Supply
from local.aws.capacity.zonal_shifts import ZonalShifts
from local.aws.catalogue.prices import PriceBook, load_listed_prices
from local.aws.catalogue.types import Catalogue
from local.aws.clock.stepped import SteppedClock
from local.aws.clock.timers import ThreadTimers, Timers
from local.aws.ec2 import addresses
from local.aws.ec2.instances import Instance, Inventory
from local.aws.ec2.launching import Launcher, release
from local.aws.ec2.statuses import Statuses
from local.aws.ec2.tokens import Tokens
from local.aws.http.faults import Faults
from local.aws.http.recorder import Recorder
from local.aws.http.trail import Trail
from local.aws.iam.access import Access
from local.aws.interruptions.events import Interruptions
from local.aws.interruptions.notices import Notices
from local.aws.moto import state as moto_state
from local.aws.settings import Behaviour, EmulatorSettings
from shared.concurrency.clock import Clock


def load_catalogue() -> Catalogue:
    """Types, offerings and zones from moto's data."""
    zones = [zone for rows in RegionsAndZonesBackend.zones.values() for zone in rows]
    return Catalogue(
        INSTANCE_TYPES,
        INSTANCE_TYPE_OFFERINGS["availability-zone"],
        {zone.name: zone.zone_id for zone in zones},
    )


class Emulator:
    """The complete state of one emulator process. ``reset`` restores the initial state."""

    def __init__(
        self,
        settings: EmulatorSettings,
        clock: Clock,
        seed: Callable[[Emulator], None],
        *,
        timers: Callable[[Clock], Timers] = ThreadTimers,
        on_state: Callable[[Instance, str], None] | None = None,
    ) -> None:
        """``on_state`` gets every instance with each state that it enters."""
        self.settings = settings
        self.clock = clock = SteppedClock(clock)
        self._seed = seed
        self.behaviour = Behaviour.from_settings(settings)
        self.timers = timers(clock)
        self._on_state = on_state
        self.catalogue = load_catalogue()
        previews = [name.strip() for name in settings.preview_types.split(",")]
        self.prices = PriceBook(self.catalogue.types, load_listed_prices(), previews)
        self.bill = Bill(self.prices)
        self.faults = Faults(clock)
        self.capacity = Capacity()
        self.recorder = Recorder()
        self.placement_groups: dict[tuple[str, str], dict[str, Any]] = {}
        """Region and name -> the group's row in DescribePlacementGroups."""
        self.trail = Trail()
        self.notices = Notices()
        self.statuses = Statuses()
        self.zonal_shifts = ZonalShifts()
        self.access = Access()
        self.inventory = Inventory(
            clock,
            self.behaviour,
            self.timers,
            on_change=self._on_change,
            on_terminated=lambda instance: release(self.ec2(instance.region), instance),
            on_forgotten=self._forget,
        )
        self.interruptions = Interruptions(
            self.inventory, self.behaviour, self.timers, clock, self.notices
        )
        self.autoscaling = AutoScaling(
            self.inventory,
            self.notices,
            self.timers,
            clock,
            self.interruptions.announce_lifecycle,
        )
        self.reservations = Reservations(self.inventory.all)
        self.launcher = Launcher(
            self.catalogue, self.inventory, self.faults, clock, self.reservations.open_for
        )
        self.quotas = Quotas()
        self.supply = Supply(
            self.capacity,
            self.quotas,
            self.reservations,
            self.inventory,
            clock,
            self.placement_groups,
        )
        self.tokens = Tokens(self._state_of)

    def start(self) -> None:
        """Create the seeded resources and start the timers."""
        if self.settings.seed:
            self._seed(self)
        self.timers.start()

    def stop(self) -> None:
        """Stop the timers."""
        self.timers.stop()

    def step(self, seconds: float) -> None:
        """Advance the clock at once; everything that becomes due happens now."""
        self.clock.step(seconds)
        self.timers.wake()

    def clear(self) -> None:
        """Remove faults, shortages and quotas, and restore the configured timings. Launched instances remain."""
        with self.inventory.lock:
            self.faults.clear()
            self.capacity.clear()
            self.quotas.clear()
            self.statuses.clear()
            self.zonal_shifts.clear()
            for subnet in moto_state.all_subnets(self.ec2(self.settings.region)):
                addresses.restore(subnet)
            self._restore_behaviour()

    def reset(self) -> None:
        """Delete every instance, template, message, fault and call, restore the configured timings, and seed again."""
        with self.inventory.lock:
            self.clear()
            # Timers before instances: a callback that is due now would announce an instance of the time before.
            self.timers.clear()
            self.inventory.clear()
            self.bill.clear()
            self.reservations.clear()
            self.placement_groups.clear()
            self.notices.clear()
            self.autoscaling.clear()
            self.tokens.clear()
            self.access.clear()
            self.launcher.clear()
            moto_state.reset()
            self.clock.reset()
            if self.settings.seed:
                self._seed(self)
            self.recorder.clear()
            self.trail.clear()

    def ec2(self, region: str) -> Any:
        """moto's EC2 backend of ``region``."""
        return moto_state.ec2(region)

    def iam(self) -> Any:
        """moto's IAM backend."""
        return moto_state.iam()

    def _restore_behaviour(self) -> None:
        configured = Behaviour.from_settings(self.settings)
        for name in Behaviour.__slots__:
            setattr(self.behaviour, name, getattr(configured, name))

    def _state_of(self, instance_id: str) -> str | None:
        instance = self.inventory.get(instance_id)
        return None if instance is None else instance.state

    def _on_change(self, instance: Instance, state: str) -> None:
        self.interruptions.report_state(instance.region, instance.instance_id, state)
        at = instance.launched_at if state == "pending" else self.clock.now()
        self.bill.note(instance.instance_id, pool_of(instance), state, at)
        if self._on_state is not None:
            self._on_state(instance, state)

    def _forget(self, instance: Instance) -> None:
        self.notices.forget(instance.instance_id)
        self.autoscaling.forget(instance.instance_id)
        self.statuses.forget(instance.instance_id)
        self.ec2(instance.region).tags.pop(instance.instance_id, None)
