"""Pods that must not be moved now: annotations and disruption budgets (DIS-11, DIS-12, DIS-14).

An annotation that cannot be read is ignored and told, as Karpenter does: a spelling mistake must not pin a node for
ever without anybody knowing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from shared.clock import rfc3339
from shared.domain import labels as keys
from shared.domain.durations import go_duration_seconds
from shared.domain.nodes import DISRUPTED
from shared.domain.pdbs import ALWAYS_ALLOW, PodDisruptionBudget, budgets_of
from shared.domain.pods import Pod

ANNOTATED = f'pod has "{keys.DO_NOT_DISRUPT}" annotation'
PDB_BLOCKS = "pdb prevents pod evictions"
TWO_PDBS = "eviction does not support multiple PDBs"


class Block(NamedTuple):
    """A pod that stays, and why."""

    pod: Pod
    text: str


def first_block(
    pods: Iterable[Pod], pdbs: Iterable[PodDisruptionBudget], *, now: float
) -> Block | None:
    """The first of a node's pods that must not be moved now; None when all may go."""
    budgets = list(pdbs)
    for pod in pods:
        text = (ANNOTATED if holds(pod, now=now) else "") or pdb_block(pod, budgets)
        if text:
            return Block(pod, text)
    return None


def is_active(pod: Pod) -> bool:
    """Neither finished nor on its way out."""
    return not pod.is_terminal and not pod.terminating


def holds(pod: Pod, *, now: float) -> bool:
    """Does its do-not-disrupt annotation hold now? Daemons and mirrors count too (DIS-12)."""
    if not pod.do_not_disrupt or not is_active(pod):
        return False
    until = held_until(pod)
    return is_valid(pod) and pod.do_not_disrupt != "false" and (until is None or now < until)


def held_until(pod: Pod) -> float | None:
    """Seconds since the epoch until which a timed annotation holds (ACC-76); None: for ever, or not at all."""
    seconds = go_duration_seconds(pod.do_not_disrupt)
    return None if seconds is None else (pod.started_at or pod.created_at) + seconds


def is_valid(pod: Pod) -> bool:
    """Is the annotation ``true`` or a duration? ``false`` is a plain way to say no."""
    written = pod.do_not_disrupt
    return written in ("", "true", "false") or go_duration_seconds(written) is not None


def annotation_event(pod: Pod, *, now: float) -> tuple[str, str, str] | None:
    """DIS-11: (type, reason, message) of the event about a pod's timed or unreadable annotation; None: it has none."""
    if not is_active(pod) or pod.do_not_disrupt in ("", "true", "false"):
        return None
    until = held_until(pod)
    if until is None:
        told = f"{pod.do_not_disrupt[:40]!r} is neither true nor a duration such as 30m"
        wrong = f"ignoring the annotation {keys.DO_NOT_DISRUPT}: {told}"
        return "Warning", "InvalidDoNotDisruptAnnotation", wrong
    if now < until:
        return "Normal", "DoNotDisruptUntil", f"Pod must not be disrupted until {rfc3339(until)}"
    elapsed = f"Pod may be disrupted since {rfc3339(until)}"
    return "Normal", "DoNotDisruptGracePeriodElapsed", elapsed


def pdb_block(pod: Pod, pdbs: Iterable[PodDisruptionBudget]) -> str:
    """Why the Eviction API would refuse this pod; empty when it would not (DIS-12: evictable pods only)."""
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
    """Active, no mirror, and not tolerating the disrupted taint."""
    return (
        is_active(pod)
        and not pod.is_mirror
        and not any(toleration.tolerates(DISRUPTED) for toleration in pod.tolerations)
    )
