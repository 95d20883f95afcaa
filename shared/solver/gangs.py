"""Gangs: pods that are placed all or none (SCH-114).

A gang that does not find a place as a whole is planned again without it, so it keeps no room from others and nothing is
bought for it. Of several that fail the last is left out first: without it the others may fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from shared.domain.workloads.pods import Pod, is_provisionable
from shared.solver import reasons
from shared.solver.plan import Plan

MOST_PLANS = 5
"""Plans that leave out one gang more; from then on all that fail are left out at once."""


def gang_of(pod: Pod) -> str:
    """``namespace/name`` of its gang; empty for none."""
    return f"{pod.namespace}/{pod.gang}" if pod.gang else ""


def with_whole_gangs(
    plan_without: Callable[[Mapping[str, str]], Plan], pods: Iterable[Pod]
) -> Plan:
    """A plan in which every gang is whole or absent. ``plan_without``: plans without some gangs, each with the verdict
    of its pods."""
    gangs: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.gang and not pod.is_terminal and not pod.terminating:
            gangs.setdefault(gang_of(pod), []).append(pod)
    refused = {
        gang: text for gang, members in gangs.items() if (text := _incomplete(gang, members))
    }
    for tries in range(len(gangs) + 1):  # each leaves out one gang or more
        plan = plan_without(refused)
        failed = _failed(plan, gangs, refused)
        if not failed:
            break
        refused |= dict([max(failed.items())]) if tries < MOST_PLANS else failed
    return plan


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
