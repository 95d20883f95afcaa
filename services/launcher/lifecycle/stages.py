"""Where a Machine stands and what is next: pure (LCH-37, LCH-39, LCH-70..76).

Launched -> registered (its node carries our labels, taints and finalizer) -> initialised (ready with all resources).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from shared.concurrency.clock import credible
from shared.domain import labels as keys
from shared.domain.expressions import Taint
from shared.domain.machines.machine import INITIALIZED, LAUNCHED, REGISTERED, Condition, Machine
from shared.domain.nodes import Node, is_ephemeral

Timeout = Literal["launch_timeout", "registration_timeout"]
"""Why a Machine is deleted, as the metrics name it (MET-02)."""
LAUNCH_TIMEOUT: Final = "launch_timeout"
REGISTRATION_TIMEOUT: Final = "registration_timeout"
_OURS = "dovetail.sh/"


def by_provider_id(nodes: Iterable[Node]) -> dict[str, list[Node]]:
    """Nodes by the machine they run on. A name may be another machine's by now (F24)."""
    found: dict[str, list[Node]] = {}
    for node in nodes:
        if node.provider_id:
            found.setdefault(node.provider_id, []).append(node)
    return found


def node_of(machine: Machine, nodes: Mapping[str, list[Node]]) -> tuple[Node | None, str]:
    """The one node with the Machine's provider id, or the reason why there is none (LCH-73)."""
    found = nodes.get(machine.provider_id, []) if machine.provider_id else []
    if len(found) == 1:
        return found[0], ""
    return None, "MultipleNodesFound" if found else "NodeNotFound"


def registered_labels(machine: Machine) -> dict[str, str]:
    """What the node must carry, also what its kubelet may not set itself (LCH-37, LCH-73): requirements with one value,
    the Machine's own labels, and the mark.
    """
    single = {
        one.key: one.values[0]
        for one in machine.requirements
        if one.operator == "In" and len(one.values) == 1 and one.key != keys.HOSTNAME
    }
    return {**single, **machine.labels, keys.REGISTERED: "true"}


def registered_annotations(machine: Machine, cluster: str) -> dict[str, str]:
    """The Machine's annotations, but not our own notes on its launch (LCH-73)."""
    theirs = {k: v for k, v in machine.annotations.items() if not k.startswith(_OURS)}
    return {**theirs, keys.MANAGED_BY: cluster}


def registered_taints(machine: Machine, node: Node) -> tuple[Taint, ...]:
    """The node's taints after registration: ours added while it is new, the boot taint gone.

    A node that is labelled registered has got them before: a startup taint that its agent took off since must not
    come back (LCH-74). One that renders its taints itself gets none (LCH-39).
    """
    kept = [t for t in node.taints if t.key != keys.UNREGISTERED_TAINT_KEY]
    if not node.is_registered and node.labels.get(keys.DO_NOT_SYNC_TAINTS) != "true":
        known = {(t.key, t.effect) for t in kept}
        ours = (*machine.taints, *machine.startup_taints)
        kept += [t for t in ours if (t.key, t.effect) not in known]
    return tuple(kept)


def lacks_boot_taint(node: Node) -> bool:
    """A new node without it may have taken pods too early (LCH-73)."""
    return not node.is_registered and not any(
        taint.key == keys.UNREGISTERED_TAINT_KEY for taint in node.taints
    )


def waits_for(machine: Machine, node: Node) -> tuple[str, str]:
    """(reason, message) why the node is not initialised; empty when it is (LCH-75)."""
    if not node.ready:
        return "NodeNotReady", "node is not ready"
    startup = {(t.key, t.effect) for t in machine.startup_taints}
    for taint in node.taints:
        if (taint.key, taint.effect) in startup:
            return "StartupTaintsExist", f"startup taint {taint.text()} still exists"
        if is_ephemeral(taint):
            return "KnownEphemeralTaintsExist", f"ephemeral taint {taint.text()} still exists"
    for resource, amount in sorted(machine.requests.items()):
        if amount and not node.allocatable.get(resource):
            return "ResourceNotRegistered", f"resource {resource} is not registered"
    return "", ""


def timed_out(
    machine: Machine, *, now: float, launch_seconds: float, registration_seconds: float
) -> Timeout | None:
    """Which time is up; None when none is. Initialisation has no timeout (LCH-76).

    A launched Machine whose node was never looked for has no Registered condition yet: its time begins with it.
    """
    if not machine.has(LAUNCHED):
        since = _since(machine, machine.conditions.get(LAUNCHED), now)
        return LAUNCH_TIMEOUT if now - since > launch_seconds else None
    registered = machine.conditions.get(REGISTERED)
    if registered is None or registered.status == "True":
        return None
    late = now - _since(machine, registered, now) > registration_seconds
    return REGISTRATION_TIMEOUT if late else None


def _since(machine: Machine, condition: Condition | None, now: float) -> float:
    """Never before the machine was made, nor far in the future: the clock that wrote the condition may be wrong."""
    since = condition.since if condition else 0.0
    return max(credible(since, now=now, otherwise=0.0), machine.created_at)


def is_joining(machine: Machine) -> bool:
    """Does its instance run without a registered node yet?"""
    return machine.has(LAUNCHED) and not machine.has(REGISTERED) and not machine.terminating


def is_open(machine: Machine) -> bool:
    """Is it on its way to an initialised node? Else there is nothing left to do until it goes."""
    return not (machine.terminating or machine.has(INITIALIZED))
