"""Voluntary disruption: never more machines of a pool at once than its budgets allow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil, inf
from typing import TYPE_CHECKING, TypeVar

from local.cluster.storage.selectors import selector_matches
from shared.disruption.methods import emptiness
from shared.domain.machines.commands import CommandRecord, holder
from shared.domain.machines.machine import INITIALIZED, INSTANCE_TERMINATING, Machine
from shared.domain.pools.budgets import is_active
from shared.domain.pools.nodepools import DRIFTED, Budget, NodePool
from shared.domain.workloads.pods import Pod, is_reschedulable
from shared.errors import InvalidObject
from shared.kube.resources import PDBS, PODS
from simulation.invariants.disturbances import Disturbances
from simulation.invariants.picture import MACHINE_KINDS, Change, Json, Picture, record_of

if TYPE_CHECKING:
    from simulation.trace import Event
    from simulation.world import World

Value = TypeVar("Value")
CALM_DECISION_SECONDS = 5.0
"""A command may rely on what held so long before its record is written: the watch's and the mirror's delay, one search
and the requests that write the records. A command that waited for its validation is searched for once more."""
DECISION_SECONDS = 90.0
"""The same after a fault: nothing is decided with a mirror older than 60 s, and a request may take 30 s."""
HOUR_SECONDS = 3600.0
FORGETTING = frozenset({"redis-flush", "redis-restart", "redis-failover", "clock-jump"})
"""Kinds of faults after which Redis may count from nothing, or by another clock."""


@dataclass
class WithinBudgets:
    """DIS-22 to DIS-26, EXE-08: a new command keeps to the budgets of its pool, with all that is disrupted counted.

    Machines that went out of service a moment ago are not counted, because the decision may not have seen them; budgets
    and the number of machines count at their most generous within that time.
    """

    picture: Picture
    disturbances: Disturbances
    name: str = "no more machines are disrupted at once than budgets allow"
    kinds: tuple[str, ...] = ("api", "fault", "process")
    _budgets: dict[str, list[tuple[float, tuple[Budget, ...]]]] = field(default_factory=dict)
    """Pool key -> since when which budgets held."""
    _totals: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    """Pool key -> number of machines that count, at each change."""
    _out_since: dict[str, float] = field(default_factory=dict)
    """UID of a machine -> since when it is out of service."""
    _restored_at: float = -inf

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when a command's record is written to a machine."""
        self.disturbances.note(event)
        change = self.picture.follow(event, world)
        if self.picture.rolled_back_at > self._restored_at:
            self._restored_at = self.picture.rolled_back_at
            for one in self.picture.pools():
                self._budgets.setdefault(one.key, []).append((event.at, _budgets(one)))
        if change is None:
            return []
        if change.key[0] in ("nodepools", "provisioners"):
            pool: NodePool | None = record_of(change.resource, change.after)
            if pool is not None:
                self._budgets.setdefault(pool.key, []).append((event.at, _budgets(pool)))
        if change.key[0] not in MACHINE_KINDS and change.key[0] != "nodes":
            return []
        self._note_machines(event.at)
        before, after = (record_of(change.resource, one) for one in (change.before, change.after))
        if not isinstance(after, Machine) or (command := _new_command(before, after)) is None:
            return []
        return self._exceeded(after, command, event.at, world)

    def _note_machines(self, at: float) -> None:
        nodes = {node.name: node for node in self.picture.nodes()}
        totals: dict[str, int] = {}
        for machine in self.picture.machines():
            if not _counts(machine):
                continue
            totals[machine.pool_key] = totals.get(machine.pool_key, 0) + 1
            node = nodes.get(machine.node_name)
            if node is None or not node.ready or node.terminating or machine.terminating:
                self._out_since.setdefault(machine.uid, at)
            else:
                self._out_since.pop(machine.uid, None)
        for key in totals.keys() | self._totals.keys():
            history = self._totals.setdefault(key, [])
            if not history or history[-1][1] != totals.get(key, 0):
                history.append((at, totals.get(key, 0)))

    def _exceeded(
        self, machine: Machine, command: CommandRecord, at: float, world: World
    ) -> list[str]:
        seconds, pool_key = decision_seconds(self.disturbances, at), machine.pool_key
        since = at - seconds
        most = max((total for _, total in held(self._totals.get(pool_key, []), since)), default=0)
        # A deadline of a schedule lies in the past as well: it may have been decided at its beginning.
        times = (world.clock.now(), world.clock.now() - seconds)
        allowed = max(
            (
                least(budgets, command.reason, most, now)
                for _, budgets in held(self._budgets.get(pool_key, []), since)
                for now in times
            ),
            default=inf,
        )
        taken = [one for one in self.picture.machines() if self._is_taken(one, pool_key, since)]
        if len(taken) <= allowed:
            return []
        names = ", ".join(sorted(one.key for one in taken))
        return [f"{pool_key} may have {allowed:g} machines disrupted and has {len(taken)}: {names}"]

    def _is_taken(self, machine: Machine, pool_key: str, since: float) -> bool:
        if machine.pool_key != pool_key or not _counts(machine):
            return False
        return holder(machine) is not None or self._out_since.get(machine.uid, inf) < since


@dataclass
class WithinRate:
    """DIS-26: a pool with a rate loses no more machines to commands within an hour, those that commands hold included.

    Redis counts them: where it lost its data, an hour's number may be used once more.
    """

    picture: Picture
    disturbances: Disturbances
    name: str = "no more machines are disrupted in an hour than the pool's rate allows"
    kinds: tuple[str, ...] = ("api", "fault", "process")
    _rates: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """Pool key -> since when which rate held."""
    _gone: dict[str, list[float]] = field(default_factory=dict)
    """Pool key -> when the scheduler deleted its machines for commands."""
    _forgot: bool = False

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when a command's record is written to a machine."""
        self.disturbances.note(event)
        self._forgot |= event.kind == "fault" and event.fields.get("fault") in FORGETTING
        change = self.picture.follow(event, world)
        if change is None or change.key[0] not in (*MACHINE_KINDS, "nodepools", "provisioners"):
            return []
        before, after = (record_of(change.resource, one) for one in (change.before, change.after))
        if isinstance(after, NodePool):
            rate = after.most_disruptions_per_hour
            rates = self._rates.setdefault(after.key, [])
            rates.append((event.at, inf if rate is None else rate))
        if isinstance(before, Machine) and change.begins_deletion and holder(before) is not None:
            self._gone.setdefault(before.pool_key, []).append(event.at)
        if not isinstance(after, Machine) or _new_command(before, after) is None:
            return []
        return self._exceeded(after.pool_key, event.at)

    def _exceeded(self, pool_key: str, at: float) -> list[str]:
        since = at - decision_seconds(self.disturbances, at)
        rates = (rate for _, rate in held(self._rates.get(pool_key, []), since))
        most = max(rates, default=inf) * (2 if self._forgot else 1)
        gone = sum(at - one < HOUR_SECONDS for one in self._gone.get(pool_key, []))
        mine = [one for one in self.picture.machines() if one.pool_key == pool_key]
        going = sum(holder(one) is not None and not one.terminating for one in mine)
        if gone + going <= most:
            return []
        return [f"{pool_key} may lose {most:g} machines in an hour and loses {gone + going}"]


@dataclass
class UndisturbedPods:
    """DIS-11, DIS-13, DIS-16, R5: no command takes a machine whose pods must not be disturbed, and no machine is
    deleted as an empty one while pods run on it.

    What was bound, annotated or protected a moment ago may not have been seen.
    """

    picture: Picture
    disturbances: Disturbances
    name: str = "pods that must not be disturbed are not"
    kinds: tuple[str, ...] = ("api", "fault", "process")
    _bound_at: dict[str, float] = field(default_factory=dict)
    """UID of a pod -> when it was bound."""
    _since: dict[str, tuple[bool, str, float]] = field(default_factory=dict)
    """UID of a pod -> whether it blocks, its node, and since when both are so."""
    _looked_at: dict[str, object] = field(default_factory=dict)
    """UID of a pod -> what of it decides the above."""
    _budget_since: dict[str, float] = field(default_factory=dict)
    """UID of a budget that lets no pod go -> since when."""

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when a command's record is written to a machine, and when the machine is deleted."""
        self.disturbances.note(event)
        change = self.picture.follow(event, world)
        if change is None:
            return []
        if change.resource is PODS:
            self._note_pod(change, event.at)
        elif change.resource is PDBS:
            self._note_budget(change, event.at)
        if change.key[0] not in MACHINE_KINDS:
            return []
        before, after = (record_of(change.resource, one) for one in (change.before, change.after))
        if change.by == "scheduler" and change.begins_deletion:
            return self._occupied(before, event.at)
        command = holder(after) if after is not None else None
        if command is None or (before is not None and holder(before) is not None):
            return []
        if command.reason == DRIFTED and after.termination_grace_seconds is not None:
            return []
        return [
            f"{after.key} was taken for {command.reason} although pod {pod.key} must stay"
            for pod in self.picture.pods()
            if pod.node_name == after.node_name and self._must_stay(pod, event.at, world)
        ]

    def _occupied(self, machine: Machine | None, at: float) -> list[str]:
        """Pods for whose sake a machine is not empty. They are read from the API server right before the deletion."""
        command = holder(machine) if machine is not None else None
        if command is None or machine is None or command.method != emptiness.METHOD:
            return []
        seen = at - self.disturbances.read_seconds(at)
        return [
            f"{machine.key} was deleted as an empty one although pod {pod.key} runs on it"
            for pod in self.picture.pods()
            if pod.node_name == machine.node_name
            and is_reschedulable(pod)
            and self._bound_at.get(pod.uid, at) < seen
        ]

    def _note_pod(self, change: Change, at: float) -> None:
        # Most changes are of conditions alone: to read the whole pod each time takes more than all else here.
        uid, looked_at = _looked_at(change.after) if change.after is not None else ("", None)
        if self._looked_at.get(uid) == looked_at:
            return
        self._looked_at[uid] = looked_at
        pod = record_of(PODS, change.after)
        if pod is None:
            return
        if pod.node_name:
            self._bound_at.setdefault(pod.uid, at)
        blocks = pod.do_not_disrupt == "true" and not pod.is_terminal and not pod.terminating
        known = self._since.get(pod.uid)
        if known is None or known[:2] != (blocks, pod.node_name):
            self._since[pod.uid] = blocks, pod.node_name, at

    def _note_budget(self, change: Change, at: float) -> None:
        raw = change.after or change.before or {}
        uid = str(raw["metadata"]["uid"])
        if change.after is not None and change.after["spec"].get("maxUnavailable") == 0:
            self._budget_since.setdefault(uid, at)
        else:
            self._budget_since.pop(uid, None)

    def _must_stay(self, pod: Pod, at: float, world: World) -> bool:
        blocks, _, since = self._since.get(pod.uid, (False, "", at))
        if at - since < decision_seconds(self.disturbances, at):
            return False
        return blocks or self._is_protected(pod, at)

    def _is_protected(self, pod: Pod, at: float) -> bool:
        if pod.is_terminal or pod.terminating or pod.is_daemon or pod.is_mirror:
            return False
        seconds = decision_seconds(self.disturbances, at)
        return any(
            raw["metadata"]["namespace"] == pod.namespace
            and selector_matches(raw["spec"].get("selector"), pod.labels)
            and at - self._budget_since.get(str(raw["metadata"]["uid"]), at) >= seconds
            for raw in self.picture.raw(PDBS)
        )


def _looked_at(raw: Json) -> tuple[str, object]:
    """The UID of a pod, and what decides where it is and whether it must stay."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    annotations, leaves = meta.get("annotations"), meta.get("deletionTimestamp")
    return meta["uid"], (spec.get("nodeName"), status.get("phase"), annotations, leaves)


def _new_command(before: object, after: Machine) -> CommandRecord | None:
    """The command that holds the machine since this write; None where none does, or it did before."""
    command, known = holder(after), holder(before) if isinstance(before, Machine) else None
    is_known = command is not None and known is not None and known.id == command.id
    return None if is_known else command


def decision_seconds(disturbances: Disturbances, at: float) -> float:
    """How old what a decision was made by may be."""
    return CALM_DECISION_SECONDS if disturbances.is_calm(at) else DECISION_SECONDS


def _counts(machine: Machine) -> bool:
    return machine.has(INITIALIZED) and not machine.has(INSTANCE_TERMINATING)


def held(history: list[tuple[float, Value]], since: float) -> list[tuple[float, Value]]:
    """The entries that held at any time since then."""
    before = [index for index, (at, _) in enumerate(history) if at <= since]
    return history[before[-1] if before else 0 :]


def _budgets(pool: NodePool) -> tuple[Budget, ...]:
    """A halted pool has a budget of none."""
    return (Budget("0"),) if pool.disruption_off else pool.budgets


def least(budgets: Iterable[Budget], reason: str, total: int, now: float) -> float:
    """How many of ``total`` machines may be disrupted at once for this reason; infinite when no budget applies."""
    limits = [inf]
    for budget in budgets:
        if budget.reasons and reason not in budget.reasons:
            continue
        try:
            if is_active(budget, now):
                limits.append(_size(budget.nodes, total))
        except (InvalidObject, ValueError):
            limits.append(0)
    return min(limits)


def _size(nodes: str, total: int) -> int:
    if nodes.endswith("%"):
        return ceil(total * int(nodes[:-1]) / 100)
    return int(nodes)
