"""What changed manifests would do: the cluster's course with them, compared with its course without them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from cli.decisions.plan.course import Course, Taken, course_of
from cli.decisions.plan.drifting import (
    changed_selectors,
    machines_of_class,
    not_judged,
    reason_of,
    with_drift,
)
from cli.decisions.plan.merging import Merged, ObjectChange, merged
from cli.decisions.plan.rules import Rules, Timing
from shared.domain.feature_gates import FeatureGates
from shared.domain.instance_types.types import Catalogue
from shared.domain.machines.machine import Machine
from shared.domain.snapshot import OfferingKey, Snapshot
from shared.simulation.inputs import Inputs, read_inputs
from shared.simulation.objects import ObjectFault
from shared.simulation.repacking import without_machines
from shared.simulation.workloads import MOST_PODS
from shared.solver.plan import PlannedMachine
from shared.solver.solve import solve

NO_OFFERINGS: frozenset[OfferingKey] = frozenset()


@dataclass(frozen=True)
class Going:
    """A machine that would go. ``anyway``: without the changes it goes too, for the same reason."""

    taken: Taken
    drift: str
    """Why it drifted; empty for other reasons."""
    anyway: bool


@dataclass(frozen=True)
class Staying:
    """A machine that would drift, and stays. ``why``: what holds it."""

    machine: Machine
    drift: str
    why: str


@dataclass
class Effect:
    """What the manifests would do. Costs are in micro-USD an hour."""

    changes: tuple[ObjectChange, ...]
    with_changes: Course
    without: Course
    going: list[Going] = field(default_factory=list)
    staying: list[Staying] = field(default_factory=list)
    not_any_more: list[Taken] = field(default_factory=list)
    """Machines that go without the changes only."""
    bought: list[tuple[float, PlannedMachine]] = field(default_factory=list)
    """Machines for pods that wait, which are not bought without the changes."""
    not_bought: list[PlannedMachine] = field(default_factory=list)
    unschedulable: dict[str, str] = field(default_factory=dict)
    """Pods that would get no place any more: those that wait, and those that could not be placed again."""
    faults: tuple[ObjectFault, ...] = ()
    """Of the manifests."""
    cluster_faults: tuple[ObjectFault, ...] = ()
    may_drift: set[str] = field(default_factory=set)
    """Keys of machines whose class selects otherwise: whether they drift is known in AWS only."""
    notes: list[str] = field(default_factory=list)

    @property
    def machines(self) -> int:
        """Machines of the cluster now."""
        return len(self.with_changes.before.machines)

    @property
    def disrupted(self) -> list[Going]:
        """Machines of the cluster now that go because of the changes."""
        there = {machine.uid for machine in self.with_changes.before.machines}
        return [g for g in self.going if not g.anyway and g.taken.candidate.machine.uid in there]

    @property
    def cost_change(self) -> int:
        """Against what the cluster costs in the end without the changes."""
        return self.with_changes.cost_after - self.without.cost_after

    @property
    def seconds(self) -> float:
        """Until the last machine is gone that goes because of the changes."""
        return max((one.taken.over for one in self.going if not one.anyway), default=0.0)

    @property
    def is_empty(self) -> bool:
        """Nothing would happen that does not happen anyway, as far as is known."""
        found = (
            *(self.disrupted, self.staying, self.not_any_more, self.bought, self.not_bought),
            self.may_drift,
        )
        return not (any(found) or self.unschedulable or self.cost_change)


def effect_of(
    held: Iterable[Any],
    manifests: Iterable[Any],
    *,
    catalogue: Callable[[], Catalogue],
    rules: Rules,
    timing: Timing,
    now: float,
    unavailable: frozenset[OfferingKey] = NO_OFFERINGS,
    most_pods: int = MOST_PODS,
) -> Effect:
    """``held``: the cluster's objects; ``manifests``: what would be applied. ``now``: seconds since the epoch."""
    documents = list(held)
    after = merged(documents, manifests)
    before = read_inputs(documents, catalogue, most_pods)
    changed = read_inputs(after.documents, catalogue, most_pods)
    return effect_between(
        before, changed, after, rules=rules, timing=timing, now=now, unavailable=unavailable
    )


def effect_between(
    before: Inputs,
    changed: Inputs,
    after: Merged,
    *,
    rules: Rules,
    timing: Timing,
    now: float,
    unavailable: frozenset[OfferingKey] = NO_OFFERINGS,
) -> Effect:
    """``before``: the cluster; ``changed``: as it would be after the changes of ``after``."""
    faults = tuple(fault for fault in changed.faults if fault not in before.faults)
    courses = [
        _course(one, rules, timing, now, unavailable) if not faults else _standing_still(one)
        for one in (before, changed)
    ]
    effect = Effect(after.changes, courses[1], courses[0], faults=faults)
    effect.cluster_faults = before.faults
    if not faults:
        _compare(effect, after, rules, now)
    return effect


def _course(
    inputs: Inputs, rules: Rules, timing: Timing, now: float, unavailable: frozenset[OfferingKey]
) -> Course:
    snapshot = replace(inputs.snapshot, unavailable=inputs.snapshot.unavailable | unavailable)
    return course_of(with_drift(snapshot, rules.gates, now), rules, timing, now=now)


def _standing_still(inputs: Inputs) -> Course:
    return Course(inputs.snapshot, inputs.snapshot, 0, 0)


def _compare(effect: Effect, after: Merged, rules: Rules, now: float) -> None:
    ours, theirs = effect.with_changes, effect.without
    anyway = {(one.candidate.machine.uid, one.command.reason) for one in theirs.taken}
    effect.going = [
        Going(
            one,
            reason_of(one.candidate.machine) if one.command.reason == "Drifted" else "",
            (one.candidate.machine.uid, one.command.reason) in anyway,
        )
        for one in ours.taken
    ]
    kept = {machine.uid for machine in ours.after.machines}
    effect.not_any_more = [one for one in theirs.taken if one.candidate.machine.uid in kept]
    effect.staying = list(_staying(ours, theirs, rules.gates))
    effect.bought, effect.not_bought = _purchases(ours, theirs)
    effect.unschedulable = _without_place(ours, theirs, rules, now)
    _note_selectors(effect, after)
    if not rules.gates.static_capacity:
        effect.notes += _left_out(effect, after)


def _note_selectors(effect: Effect, after: Merged) -> None:
    """What a class selects may be something else after the changes; AWS alone knows."""
    for change in after.changes:
        selectors = changed_selectors(change.fields)
        if selectors:
            key = f"{change.kind}/{change.name}"
            found = machines_of_class(effect.with_changes.before, key)
            effect.may_drift |= {one.key for one in found}
            effect.notes.append(not_judged(key, selectors, len(found)))


def _left_out(effect: Effect, after: Merged) -> Iterable[str]:
    """A note for each static pool that the changes concern: by a field of its own, or by drift."""
    concerned = {f"{one.kind}/{one.name}" for one in after.changes}
    concerned |= {one.machine.pool_key for one in effect.staying}
    courses = (effect.without, effect.with_changes)
    static = {pool.key for one in courses for pool in one.before.pools if pool.is_static}
    for key in sorted(static & concerned):
        yield f"{key} is static: its machines count with {STATIC_GATE}, if the scheduler has this gate"


STATIC_GATE = "--feature-gates StaticCapacity=true"


def _staying(ours: Course, theirs: Course, gates: FeatureGates) -> Iterable[Staying]:
    before = {machine.uid for machine in theirs.after.machines if reason_of(machine)}
    static = {pool.key for pool in ours.after.pools if pool.is_static}
    for machine in ours.after.machines:
        drift = reason_of(machine)
        if drift and machine.uid not in before:
            rejection = ours.stays.get(machine.key)
            otherwise = (
                NO_GATE if machine.pool_key in static and not gates.static_capacity else NO_TURN
            )
            yield Staying(machine, drift, rejection.text if rejection else otherwise)


NO_GATE = f"its pool is static, and counts with {STATIC_GATE} only"
NO_TURN = "the budgets allow no disruption while the cluster was watched"


def _purchases(
    ours: Course, theirs: Course
) -> tuple[list[tuple[float, PlannedMachine]], list[PlannedMachine]]:
    """(bought only with the changes, bought only without): equal offerings of a pool count as the same."""
    left = [planned for _, planned in theirs.bought]
    more: list[tuple[float, PlannedMachine]] = []
    for at, planned in ours.bought:
        same = next((one for one in left if _offering(one) == _offering(planned)), None)
        if same is None:
            more.append((at, planned))
        else:
            left.remove(same)
    return more, left


def _offering(planned: PlannedMachine) -> tuple[Any, ...]:
    return planned.pool_key, planned.instance_type, planned.offering


def _without_place(ours: Course, theirs: Course, rules: Rules, now: float) -> dict[str, str]:
    """Pods that wait at the end only with the changes, and pods that run and that no machine could take any more."""
    lost = {key: why for key, why in ours.unschedulable.items() if key not in theirs.unschedulable}
    again, known = (_not_placed_again(one.before, rules, now) for one in (ours, theirs))
    waiting = ours.unschedulable.keys() | theirs.unschedulable.keys()
    return lost | {k: why for k, why in again.items() if k not in known and k not in waiting}


def _not_placed_again(snapshot: Snapshot, rules: Rules, now: float) -> dict[str, str]:
    """Pod key -> why no machine could be bought for it, if all machines were bought anew."""
    emptied = without_machines(snapshot)
    pods = {pod.uid: pod.key for pod in emptied.pods}
    plan = solve(emptied, now=now, settings=rules.solver)
    return {pods[uid]: why for uid, why in plan.unschedulable.items()}
