"""Pods that block the disruption of their node: annotations and PodDisruptionBudgets (DIS-11, DIS-12, DIS-14).

An invalid annotation is ignored with a warning event, as in Karpenter: a typing error must not silently block a node
for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from shared.concurrency.clock import rfc3339
from shared.domain import labels as keys
from shared.domain.durations import go_duration_seconds
from shared.domain.nodes import DISRUPTED
from shared.domain.workloads.pdbs import ALWAYS_ALLOW, PodDisruptionBudget, budgets_of
from shared.domain.workloads.pods import Pod
from shared.domain.workloads.scale_down import KARPENTERS, ScaleDownRules, pod_refusal

ANNOTATED = f'pod has "{keys.DO_NOT_DISRUPT}" annotation'
PDB_BLOCKS = "pdb prevents pod evictions"
TWO_PDBS = "eviction does not support multiple PDBs"


class Block(NamedTuple):
    """A pod that blocks its node's disruption, and why."""

    pod: Pod
    text: str


def first_block(
    pods: Iterable[Pod],
    pdbs: Iterable[PodDisruptionBudget],
    *,
    now: float,
    rules: ScaleDownRules = KARPENTERS,
) -> Block | None:
    """The first of a node's pods that blocks its disruption; None when no pod does."""
    budgets = list(pdbs)
    for pod in pods:
        text = (ANNOTATED if holds(pod, now=now) else "") or pdb_block(pod, budgets)
        if not text and rules != KARPENTERS:
            text = pod_refusal(pod, rules, has_budget=bool(budgets_of(pod, budgets)))
        if text:
            return Block(pod, text)
    return None


def is_active(pod: Pod) -> bool:
    """Neither finished nor terminating."""
    return not pod.is_terminal and not pod.terminating


def holds(pod: Pod, *, now: float) -> bool:
    """Does the pod's do-not-disrupt annotation block now? Daemon and mirror pods count too (DIS-12)."""
    if not pod.do_not_disrupt or not is_active(pod):
        return False
    until = held_until(pod)
    return is_valid(pod) and pod.do_not_disrupt != "false" and (until is None or now < until)


def held_until(pod: Pod) -> float | None:
    """When an annotation with a duration ends, in seconds since the epoch (ACC-76); None without a duration."""
    seconds = go_duration_seconds(pod.do_not_disrupt)
    return None if seconds is None else (pod.started_at or pod.created_at) + seconds


def is_valid(pod: Pod) -> bool:
    """Is the annotation absent, ``true``, ``false`` or a duration?"""
    written = pod.do_not_disrupt
    return written in ("", "true", "false") or go_duration_seconds(written) is not None


def annotation_event(pod: Pod, *, now: float) -> tuple[str, str, str] | None:
    """(type, reason, message) of the event about an annotation that has a duration or is invalid (DIS-11); or None."""
    if not is_active(pod) or pod.do_not_disrupt in ("", "true", "false"):
        return None
    until = held_until(pod)
    if until is None:
        fault = f"{pod.do_not_disrupt[:40]!r} is neither true nor a duration such as 30m"
        text = f"ignoring the annotation {keys.DO_NOT_DISRUPT}: {fault}"
        return "Warning", "InvalidDoNotDisruptAnnotation", text
    if now < until:
        return "Normal", "DoNotDisruptUntil", f"Pod must not be disrupted until {rfc3339(until)}"
    elapsed = f"Pod may be disrupted since {rfc3339(until)}"
    return "Normal", "DoNotDisruptGracePeriodElapsed", elapsed


def pdb_block(pod: Pod, pdbs: Iterable[PodDisruptionBudget]) -> str:
    """Why the Eviction API would refuse this pod; empty when it would not, or the pod is not evictable (DIS-12)."""
    if not is_evictable(pod):
        return ""
    budgets = budgets_of(pod, pdbs)
    if len(budgets) > 1:
        return TWO_PDBS
    if not budgets or budgets[0].allowed > 0:
        return ""
    starting = pod.phase != "Running" and budgets[0].unhealthy_policy == ALWAYS_ALLOW
    return "" if starting else PDB_BLOCKS


def is_evictable(pod: Pod) -> bool:
    """Active, neither a mirror pod nor a virtual one, and without a toleration for the disrupted taint."""
    return (
        is_active(pod)
        and not pod.is_mirror
        and not pod.virtual
        and not any(toleration.tolerates(DISRUPTED) for toleration in pod.tolerations)
    )
