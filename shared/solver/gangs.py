"""Gangs: pods that are placed all or none (SCH-114), if asked within one value of a node label (SCH-115).

A gang that does not find a place as a whole is planned again without it, so it keeps no room from others and nothing is
bought for it. Of several that fail the last is left out first: without it the others may fit.

A gang within one zone, or one value of another label, is planned alone with each value. The values that have room for
all of it are tried in the order of what they cost, the first with the others of the plan beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from shared.domain.expressions import Expression
from shared.domain.workloads.pods import Pod, is_provisionable
from shared.solver import reasons
from shared.solver.plan import Plan
from shared.solver.topology.gang_domains import GangDomains, confined

MOST_PLANS = 5
"""Plans that change what is done about one gang; from then on all that fail are changed at once."""
Confinement = Expression | None
"""The value that a gang is confined to; None: its nodes may have any."""


@dataclass(frozen=True)
class Gangs:
    """What one plan does about gangs, by ``namespace/name``."""

    refused: Mapping[str, str] = field(default_factory=dict)
    """Gang -> the verdict of its pods, which are not placed."""
    within: Mapping[str, Confinement] = field(default_factory=dict)

    def confined(self, pod: Pod) -> Pod:
        """The pod as the plan places it."""
        return confined(pod, self.within.get(gang_of(pod))) if pod.gang_topology else pod


@dataclass(frozen=True)
class Planning:
    """How plans are made. ``moving``: UIDs of bound pods that need another node."""

    whole: Callable[[Gangs], Plan]
    alone: Callable[[str, Gangs], Plan]
    """The plan in which no pods wait but those of one gang."""
    domains: GangDomains
    moving: frozenset[str]


@dataclass
class _Search:
    """Which gangs are refused, and which values the others have left to try."""

    planning: Planning
    gangs: Mapping[str, list[Pod]]
    refused: dict[str, str]
    left: dict[str, list[Confinement]] = field(default_factory=dict)
    """The first of them is the one in use."""

    def prepare(self) -> None:
        for gang, members in sorted(self.gangs.items()):
            key = next((pod.gang_topology for pod in members if pod.gang_topology), "")
            if key and gang not in self.refused and any(map(self._waits, members)):
                found = self._choices(gang, members, key)
                if isinstance(found, str):
                    self.refused[gang] = found
                else:
                    self.left[gang] = found

    def plan(self) -> Plan:
        return self.planning.whole(
            Gangs(self.refused, {gang: choices[0] for gang, choices in self.left.items()})
        )

    def change(self, failed: Mapping[str, str]) -> None:
        """Take the next value of these gangs, or refuse those that have none left."""
        for gang, verdict in failed.items():
            if len(self.left.get(gang, ())) > 1:
                del self.left[gang][0]
            else:
                self.refused[gang] = verdict

    @property
    def most_plans(self) -> int:
        """Each changes something about one gang or more."""
        return 1 + len(self.gangs) + sum(map(len, self.left.values()))

    def _waits(self, pod: Pod) -> bool:
        return is_provisionable(pod) or pod.uid in self.planning.moving

    def _choices(self, gang: str, members: list[Pod], key: str) -> list[Confinement] | str:
        """The values to try, best first; the verdict if there is none."""
        otherwise: list[Confinement] = (
            [None] if any(p.gang_topology_preferred for p in members) else []
        )
        staying = [pod for pod in members if not self._waits(pod)]
        settled = self.planning.domains.of_pods(key, staying)
        if settled:
            return [_within(key, value) for value in settled] + otherwise
        values = self.planning.domains.values(key)
        if not values and not otherwise:
            return reasons.gang_without_domains(gang, key)
        waiting = [pod.uid for pod in members if self._waits(pod)]
        suitable: list[tuple[int, str]] = []
        cause = ""
        for value in values:
            plan = self.planning.alone(gang, Gangs({}, {gang: _within(key, value)}))
            missing = [uid for uid in waiting if uid not in _placed(plan)]
            if missing:
                cause = cause or plan.unschedulable.get(missing[0], "")
            else:
                suitable.append((plan.cost_micro_usd_per_hour, value))
        if not suitable and not otherwise:
            return reasons.gang_fits_no_domain(gang, key, len(values), cause)
        return [_within(key, value) for _, value in sorted(suitable)] + otherwise


def gang_of(pod: Pod) -> str:
    """``namespace/name`` of its gang; empty for none."""
    return f"{pod.namespace}/{pod.gang}" if pod.gang else ""


def with_others_left_out(pods: Iterable[Pod], gang: str, moving: frozenset[str]) -> Iterator[Pod]:
    """Those of one gang, and those that have a node and stay there."""
    for pod in pods:
        if gang_of(pod) == gang or not (is_provisionable(pod) or pod.uid in moving):
            yield pod


def with_whole_gangs(planning: Planning, pods: Iterable[Pod]) -> Plan:
    """A plan in which every gang is whole or absent."""
    gangs: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.gang and not pod.is_terminal and not pod.terminating:
            gangs.setdefault(gang_of(pod), []).append(pod)
    refused = {
        gang: text for gang, members in gangs.items() if (text := _incomplete(gang, members))
    }
    search = _Search(planning, gangs, refused)
    search.prepare()
    for tries in range(search.most_plans):
        plan = search.plan()
        failed = _failed(plan, gangs, refused)
        if not failed:
            break
        search.change(dict([max(failed.items())]) if tries < MOST_PLANS else failed)
    return plan


def _within(key: str, value: str) -> Expression:
    return Expression(key, "In", (value,))


def _placed(plan: Plan) -> frozenset[str]:
    found = {uid for machine in plan.machines for uid in machine.pods}
    return frozenset(found.union(*plan.existing.values()))


def _incomplete(gang: str, members: list[Pod]) -> str:
    """The verdict of a gang that cannot be judged yet, because pods are missing or kube-scheduler has not looked at
    them; once one of them has a node it waits for no others."""
    if any(pod.node_name or pod.nominated_node for pod in members):
        return ""
    waiting = sum(is_provisionable(pod) for pod in members)
    size = max(len(members), *(pod.gang_size for pod in members))
    return reasons.gang_incomplete(gang, size - waiting, size) if waiting < size else ""


def _failed(
    plan: Plan, gangs: Mapping[str, list[Pod]], refused: Mapping[str, str]
) -> dict[str, str]:
    """Gang -> verdict, of those with a pod that found no place."""
    if not gangs:
        return {}
    gang = {pod.uid: name for name, members in gangs.items() for pod in members}
    counts = Counter(
        gang[uid] for uid in plan.unschedulable if gang.get(uid, "") not in ("", *refused)
    )
    why = {gang[uid]: text for uid, text in plan.unschedulable.items() if uid in gang}
    return {
        name: reasons.gang_fits_not(name, count, len(gangs[name]), why[name])
        for name, count in counts.items()
    }
