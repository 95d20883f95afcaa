"""Pods on machines that go: budgets are kept, and an instance ends only after its pods have left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from local.cluster.storage.selectors import selector_matches
from shared.domain.machines.machine import REGISTERED, Machine
from shared.domain.nodes import CORDONED, DISRUPTED, Node, provider_instance_id
from shared.domain.workloads.pods import Pod
from shared.kube.resources import NODES, PODS
from simulation.invariants.deletions import ended_by_services, skew_of
from simulation.invariants.launches import LIVE, RESTORE_SECONDS
from simulation.invariants.picture import Change, Json, Picture, record_of

if TYPE_CHECKING:
    from simulation.trace import Event
    from simulation.world import World

STUCK_SECONDS = 60.0
"""A pod so long past its deletion time is not waited for."""
FRESH_SECONDS = 10.0
"""A pod that was bound so recently may have come after the last look of the drain: somebody opened the node by hand."""


def deadline_of(machine: Machine | None, world: World) -> float | None:
    """When the drain of this machine ends by its own grace period, on the terminator's clock; None: never."""
    if machine is None or machine.terminate_at is None:
        return None
    return machine.terminate_at - skew_of("terminator", world)


@dataclass
class PodBudgets:
    """I6, F22, TRM-08, TRM-11: the terminator evicts pods, and deletes none before the deadline of its machine.

    The API server charges an eviction to the budgets of the pod and refuses it where one allows none. It asks no budget
    about a deletion, so a deletion is wrong even where a budget would have allowed it.
    """

    picture: Picture
    name: str = "no pod goes against its budget"
    kinds: tuple[str, ...] = ("api",)

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when a pod begins to terminate."""
        change = self.picture.follow(event, world)
        if change is None or change.resource is not PODS or not change.begins_deletion:
            return []
        if change.by != "terminator" or event.fields.get("verb") == "evict":
            return []
        if event.at - self.picture.rolled_back_at < RESTORE_SECONDS or self._is_due(change, world):
            return []
        return [f"pod {change.key[2]} was deleted and not evicted, before the deadline"]

    def _is_due(self, change: Change, world: World) -> bool:
        """Whether the deadline of the pod's machine is so near that its grace period fits no longer."""
        pod: Pod | None = record_of(PODS, change.before)
        node = next((n for n in self.picture.nodes() if pod and n.name == pod.node_name), None)
        if node is None or pod is None:
            return False
        owner = self.picture.machine_of(provider_instance_id(node.provider_id))
        deadline = deadline_of(owner, world)
        return deadline is not None and world.clock.now() >= deadline - pod.grace_seconds - 1


@dataclass
class DrainedFirst:
    """TRM-03, TRM-09, TRM-12: a registered node's instance is ended after its pods have left, or at the deadline, and
    the node stays until then, whoever deletes it."""

    picture: Picture
    name: str = "an instance is ended after its pods have left"
    kinds: tuple[str, ...] = ("api", "aws")
    _bound_at: dict[str, float] = field(default_factory=dict)
    """UID of a pod -> when it was bound."""

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when a service ends an instance."""
        change = self.picture.follow(event, world)
        if change is not None and change.resource is PODS:
            self._note(change, event.at)
        if event.at - self.picture.rolled_back_at < RESTORE_SECONDS:
            return []
        found = self._vanished(change, world) if change is not None else []
        for instance in ended_by_services(event, world):
            found += self._left_behind(instance, event.at, world)
        return found

    def _vanished(self, change: Change, world: World) -> list[str]:
        """A registered node that went at once when it was deleted: nobody could drain it."""
        if change.resource is not NODES or change.after is not None:
            return []
        node: Node | None = record_of(NODES, change.before)
        if node is None or node.terminating:
            return []
        name = provider_instance_id(node.provider_id)
        machine, instance = self.picture.machine_of(name), world.emulator.inventory.get(name)
        if machine is None or not machine.has(REGISTERED) or machine.terminating:
            return []
        if instance is None or instance.state not in LIVE:
            return []
        return [f"node {node.name} was removed at once, although {name} runs"]

    def _note(self, change: Change, at: float) -> None:
        before, after = _node_of(change.before), _node_of(change.after)
        if change.after is None:
            self._bound_at.pop(str(change.before["metadata"]["uid"]) if change.before else "", None)
        elif after and not before:
            self._bound_at[str(change.after["metadata"]["uid"])] = at

    def _left_behind(self, instance: Any, at: float, world: World) -> list[str]:
        machine = self.picture.machine_of(instance.instance_id)
        node = next(
            (
                n
                for n in self.picture.nodes()
                if provider_instance_id(n.provider_id) == instance.instance_id
            ),
            None,
        )
        if machine is None or node is None or not node.ready or not machine.has(REGISTERED):
            return []  # Pods of a dead node cannot be stopped, and a node that never joined has none.
        now, deadline = world.clock.now(), deadline_of(machine, world)
        if deadline is not None and now >= deadline - 1:
            return []
        return [
            f"{instance.instance_id} was ended while pod {pod.key} ran on {node.name}"
            for pod in self.picture.pods()
            if pod.node_name == node.name
            and at - self._bound_at.get(pod.uid, at - 2 * FRESH_SECONDS) > FRESH_SECONDS
            and must_leave(pod, node, now)
        ]


def _node_of(pod: Json | None) -> str:
    return "" if pod is None else str((pod.get("spec") or {}).get("nodeName") or "")


def must_leave(pod: Pod, node: Node, now: float) -> bool:
    """Whether the drain of this node has to wait for the pod (TRM-06)."""
    if pod.is_terminal or pod.is_mirror or pod.is_daemon:
        return False
    if pod.terminating and now - pod.terminate_at > STUCK_SECONDS:
        return False
    taints = {DISRUPTED, CORDONED}
    if any(toleration.tolerates(taint) for toleration in pod.tolerations for taint in taints):
        return False
    return pod.node_name == node.name


def is_held(pod: Pod, budgets: list[Json], labels_of: Mapping[str, str]) -> bool:
    """Whether a person's wish keeps the pod: an annotation, or a budget that lets nobody go (TRM-09, F22)."""
    if pod.do_not_disrupt and pod.do_not_disrupt != "false":
        return True
    mine = [
        raw
        for raw in budgets
        if raw["metadata"]["namespace"] == pod.namespace
        and selector_matches(raw["spec"].get("selector"), labels_of)
    ]
    if len(mine) > 1:
        return True
    return any(not int((raw.get("status") or {}).get("disruptionsAllowed") or 0) for raw in mine)
