"""Back-off of machines that are bought and that none of their pods ever runs on. Pure; time is given.

Somebody taints every new node, an admission webhook keeps pods off, a daemon fills the node before anything else: the
machine is there, initialised, and none of the pods that it was bought for runs on it. The pods wait on, so the next
plan buys for them again, as fast as machines boot, without end.

An *attempt* is what one plan bought in one pool for one workload (the pods of one controller, or a pod without). It
failed when all its machines are initialised or terminating, none holds a pod of the workload, and either the same pods
are to be bought for again or its machines had pods and lost them. It succeeded as soon as one such pod has run there
for ``STABLE_SECONDS``; then everything about it is forgotten. After a failed attempt the next one buys a single machine
as a test, and each further one waits twice as long. A burst is therefore never slowed down: hundreds of machines of one
plan are one attempt, while one of them still boots nothing is judged, and new pods do not count against it.

Machines that never came up (no capacity, no registration) do not count: the launcher has a back-off for those. What may
go wrong: a workload that never runs longer than a few seconds looks like one that is thrown off its nodes; it waits, at
most ``LONGEST_PAUSE_SECONDS`` between machines. After a restart the count begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

import msgspec

from shared.concurrency.backoff import doubled
from shared.domain.machines.machine import INITIALIZED, Machine
from shared.domain.workloads.pods import Pod
from shared.solver.plan import Plan, PlannedMachine

STABLE_SECONDS = 3.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 15.0, 600.0
FREE_ATTEMPTS = 2
"""So many in a row without a pause: the first one, and the single machine that is bought as a test."""
FORGOTTEN_SECONDS = 1800.0
MOST_ATTEMPTS = 2000
"""Workloads that are followed; the oldest are forgotten first."""
CHECK_SECONDS = 2.0
"""How often running pods are compared with the attempts."""

Key = tuple[str, str]
"""Pool key and workload."""


class Attempt(msgspec.Struct, frozen=True):
    """The latest purchase for one workload. ``at``: monotonic seconds."""

    machines: frozenset[str]
    pods: frozenset[str]
    """UIDs."""
    at: float
    before: int = 0
    """Attempts in a row before this one that failed."""
    initialized: bool = False
    """One of its machines was initialised."""
    had_pods: bool = False
    """One of its machines had pods for a moment."""


class Hold(msgspec.Struct, frozen=True):
    """Nothing is bought for this workload now. ``attempts`` in a row failed; the next may be made in ``seconds``, or
    when the machine of the last one has booted where that is 0."""

    pool_key: str
    workload: str
    attempts: int
    seconds: float


@dataclass
class ProvisioningBackoff:
    """The attempts that have not succeeded yet."""

    _attempts: dict[Key, Attempt] = field(default_factory=dict)

    @property
    def has_attempts(self) -> bool:
        return bool(self._attempts)

    def check(self, machines: Mapping[str, Machine], pods: Iterable[Pod], *, now: float) -> None:
        """Forget attempts that succeeded. ``machines`` by name; ``now``: seconds since the epoch."""
        bound: dict[Key, bool] = {}
        nodes = self._nodes(machines)
        for pod in pods:
            if pod.node_name not in nodes:
                continue
            place = (pod.node_name, workload_of(pod))
            bound[place] = bound.get(place, False) or _is_stable(pod, now)
        for key, attempt in list(self._attempts.items()):
            held = [machines[name] for name in attempt.machines if name in machines]
            places = [(machine.node_name, key[1]) for machine in held if machine.node_name]
            if any(bound.get(place) for place in places):
                del self._attempts[key]
                continue
            self._attempts[key] = msgspec.structs.replace(
                attempt,
                initialized=attempt.initialized
                or any(machine.has(INITIALIZED) for machine in held),
                had_pods=attempt.had_pods
                or any(machine.last_pod_event_at > 0 for machine in held)
                or any(place in bound for place in places),
            )

    def judge(
        self, plan: Plan, pods: Sequence[Pod], machines: Mapping[str, Machine], *, now: float
    ) -> tuple[list[PlannedMachine], list[Hold]]:
        """Which of the plan's machines may be bought, and what is held back. ``now`` is monotonic."""
        self._forget(now)
        wanted = {uid for planned in plan.machines for uid in planned.pods}
        if not wanted:
            return list(plan.machines), []
        nodes = self._nodes(machines)
        # Virtual pods never run, which proves nothing.
        workloads = {
            pod.uid: "" if pod.virtual else workload_of(pod) for pod in pods if pod.uid in wanted
        }
        present = {
            (pod.node_name, workload_of(pod))
            for pod in pods
            if pod.node_name in nodes and not pod.terminating
        }
        desired: dict[Key, set[str]] = {}
        for planned in plan.machines:
            for key, uid in _keys(planned, workloads):
                desired.setdefault(key, set()).add(uid)
        verdicts = {
            key: self._verdict(key, uids, machines, present, now) for key, uids in desired.items()
        }
        allowed = self._allowed(plan, workloads, verdicts, machines, now)
        return allowed, [verdict for verdict in verdicts.values() if isinstance(verdict, Hold)]

    def _nodes(self, machines: Mapping[str, Machine]) -> set[str]:
        """Names of the nodes of all attempts; "" for a machine that has none yet."""
        names = (name for attempt in self._attempts.values() for name in attempt.machines)
        return {machines[name].node_name for name in names if name in machines}

    def _allowed(
        self,
        plan: Plan,
        workloads: Mapping[str, str],
        verdicts: Mapping[Key, Hold | int],
        machines: Mapping[str, Machine],
        now: float,
    ) -> list[PlannedMachine]:
        """The machines that may be bought, which are noted as bought."""
        allowed: list[PlannedMachine] = []
        bought: dict[Key, list[PlannedMachine]] = {}
        for planned in plan.machines:
            keys = {key for key, _ in _keys(planned, workloads)}
            if keys and not any(_may_buy(verdicts[key], key in bought) for key in keys):
                continue
            allowed.append(planned)
            for key in keys:
                bought.setdefault(key, []).append(planned)
        self._note(bought, verdicts, machines, now)
        return allowed

    def _verdict(
        self,
        key: Key,
        uids: Set[str],
        machines: Mapping[str, Machine],
        present: set[Key],
        now: float,
    ) -> Hold | int:
        """How many attempts in a row failed; a Hold when it is too soon for the next."""
        attempt = self._attempts.get(key)
        if attempt is None:
            return 0
        held = [machines[name] for name in attempt.machines if name in machines]
        if attempt.before and any(map(_is_booting, held)):
            return Hold(*key, attempt.before, 0.0)  # the test must end first
        suspect = attempt.had_pods or bool(uids & attempt.pods)
        if not suspect or not _failed(attempt, key[1], held, present):
            return attempt.before
        attempts = attempt.before + 1
        wait = attempt.at + pause_after(attempts) - now
        return attempts if wait <= 0 else Hold(*key, attempts, wait)

    def _note(
        self,
        bought: Mapping[Key, list[PlannedMachine]],
        verdicts: Mapping[Key, Hold | int],
        machines: Mapping[str, Machine],
        now: float,
    ) -> None:
        for key, planned in bought.items():
            verdict = verdicts[key]
            if isinstance(verdict, Hold):
                continue  # bought for another workload, with room left
            names = frozenset(one.name for one in planned)
            pods = frozenset(uid for one in planned for uid in one.pods)
            fresh, known = Attempt(names, pods, now, verdict), self._attempts.pop(key, None)
            if known is not None and verdict == known.before:  # still open: one attempt, grown
                fresh = msgspec.structs.replace(
                    known,
                    machines=names | (known.machines & machines.keys()),
                    pods=pods | known.pods,
                    at=now,
                )
            self._attempts[key] = fresh

    def _forget(self, now: float) -> None:
        late = [k for k, one in self._attempts.items() if now - one.at > FORGOTTEN_SECONDS]
        for key in [*late, *list(self._attempts)[: max(0, len(self._attempts) - MOST_ATTEMPTS)]]:
            self._attempts.pop(key, None)


def workload_of(pod: Pod) -> str:
    """Pods that are thrown off a node come back under another UID, but with the same controller."""
    return pod.owner.uid if pod.owner is not None else pod.uid


def _keys(planned: PlannedMachine, workloads: Mapping[str, str]) -> Iterable[tuple[Key, str]]:
    """(key, UID) of its pods that belong to a workload."""
    for uid in planned.pods:
        workload = workloads.get(uid, uid)
        if workload:
            yield (planned.pool_key, workload), uid


def pause_after(attempts: int) -> float:
    """Seconds from the last of so many failed attempts to the next."""
    if attempts < FREE_ATTEMPTS:
        return 0.0
    failures = attempts - FREE_ATTEMPTS
    return doubled(failures, first=FIRST_PAUSE_SECONDS, cap=LONGEST_PAUSE_SECONDS)


def _may_buy(verdict: Hold | int, bought: bool) -> bool:
    """After a failed attempt: a single machine, as a test."""
    return not isinstance(verdict, Hold) and (verdict == 0 or not bought)


def _failed(attempt: Attempt, workload: str, held: Sequence[Machine], present: set[Key]) -> bool:
    """``held``: its machines that are still there; ``present``: (node, workload) of every bound pod that stays."""
    if any(map(_is_booting, held)):
        return False
    if any((machine.node_name, workload) in present for machine in held):
        return False
    return attempt.initialized or any(machine.has(INITIALIZED) for machine in held)


def _is_booting(machine: Machine) -> bool:
    return not machine.terminating and not machine.has(INITIALIZED)


def _is_stable(pod: Pod, now: float) -> bool:
    running = pod.phase == "Running" and not pod.terminating and pod.started_at > 0
    return running and now - pod.started_at >= STABLE_SECONDS
