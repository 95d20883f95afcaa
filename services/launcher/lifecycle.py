"""Where a Machine stands and what is next: pure (LCH-70..76).

Launched -> registered (its node carries our labels, taints and finalizer) -> initialised (ready with all resources).
"""

from __future__ import annotations

from shared.domain import labels as keys
from shared.domain.expressions import Taint
from shared.domain.machines import INITIALIZED, LAUNCHED, REGISTERED, Machine
from shared.domain.nodes import Node, is_ephemeral

DO_NOT_SYNC_TAINTS = "karpenter.sh/do-not-sync-taints"


def node_of(machine: Machine, nodes: list[Node]) -> tuple[Node | None, str]:
    """The one node with the Machine's provider id, or the reason why there is none (LCH-73)."""
    found = [n for n in nodes if machine.provider_id and n.provider_id == machine.provider_id]
    if len(found) == 1:
        return found[0], ""
    return None, "MultipleNodesFound" if found else "NodeNotFound"


def registered_labels(machine: Machine) -> dict[str, str]:
    """What the node must carry: the Machine's own labels and the mark."""
    return {**machine.labels, keys.REGISTERED: "true"}


def registered_taints(machine: Machine, node: Node) -> tuple[Taint, ...]:
    """The node's taints after registration: ours added while it is new, the boot taint gone (LCH-74)."""
    kept = [t for t in node.taints if t.key != keys.UNREGISTERED_TAINT_KEY]
    if node.labels.get(DO_NOT_SYNC_TAINTS) != "true":
        known = {(t.key, t.effect) for t in kept}
        ours = (*machine.taints, *machine.startup_taints)
        kept += [t for t in ours if (t.key, t.effect) not in known]
    return tuple(kept)


def waits_for(machine: Machine, node: Node) -> tuple[str, str]:
    """LCH-75: (reason, message) why the node is not initialised; empty when it is."""
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
) -> str:
    """LCH-76: ``launch_timeout``, ``registration_timeout`` or empty. Initialisation has no timeout."""
    if not machine.has(LAUNCHED):
        condition = machine.conditions.get(LAUNCHED)
        since = condition.since if condition and condition.since else machine.created_at
        return "launch_timeout" if now - since > launch_seconds else ""
    if not machine.has(REGISTERED) and now - machine.created_at > registration_seconds:
        return "registration_timeout"
    return ""


def is_settled(machine: Machine) -> bool:
    """Nothing left to do until it goes."""
    return machine.has(INITIALIZED)
