"""What a change of the cluster means to the other services: pure, from the old and the new record to messages."""

from __future__ import annotations

import msgspec

from shared import streams
from shared.domain import labels as keys
from shared.domain.machines import Machine
from shared.domain.nodepools import NodeClass, NodePool
from shared.domain.nodes import Node, provider_instance_id
from shared.domain.pods import Pod, is_provisionable
from shared.messages import (
    LaunchMachine,
    Message,
    NodeClassChanged,
    NodeJoined,
    NodePoolChanged,
    PodUnschedulable,
    TerminateMachine,
)

Record = msgspec.Struct | None


def news(old: Record, new: Record, *, generation: int, version: str) -> list[tuple[str, Message]]:
    """(stream, message) for each service that has to look. ``version`` tells repeats from new changes."""
    subject = new if new is not None else old
    if isinstance(subject, Pod):
        return _pod(old, subject, gone=new is None, generation=generation)
    if isinstance(new, Node):
        return _node(old, new, version)
    if isinstance(new, Machine):
        return _machine(old, new, version)
    if isinstance(new, NodeClass) and (
        not isinstance(old, NodeClass) or old.generation != new.generation
    ):
        changed = NodeClassChanged(node_class=new.key, generation=new.generation)
        return [(streams.MACHINES, changed)]
    if isinstance(new, NodePool) and (
        not isinstance(old, NodePool) or old.generation != new.generation
    ):
        edited = NodePoolChanged(pool=new.key, generation=new.generation)
        return [(streams.MACHINES, edited)]
    return []


def _pod(old: Record, pod: Pod, *, gone: bool, generation: int) -> list[tuple[str, Message]]:
    waited = isinstance(old, Pod) and is_provisionable(old)
    waits = not gone and is_provisionable(pod)
    if waits and not waited:
        return [(streams.PODS, PodUnschedulable(uid=pod.uid, pod=pod.key, generation=generation))]
    return []


def _node(old: Record, node: Node, version: str) -> list[tuple[str, Message]]:
    if node.terminating:
        if keys.FINALIZER not in node.finalizers or (isinstance(old, Node) and old.terminating):
            return []
        return [
            (
                streams.TERMINATIONS,
                TerminateMachine(
                    kind="Node", name=node.name, reason="node deleted", resource_version=version
                ),
            )
        ]
    if provider_instance_id(node.provider_id) and not node.is_initialized:
        return [(streams.MACHINES, NodeJoined(node=node.name, resource_version=version))]
    return []


def _machine(old: Record, machine: Machine, version: str) -> list[tuple[str, Message]]:
    if machine.terminating:
        if isinstance(old, Machine) and old.terminating:
            return []
        return [
            (
                streams.TERMINATIONS,
                TerminateMachine.of(machine, "deleted", version),
            )
        ]
    if old is None and not machine.provider_id:
        return [(streams.LAUNCHES, LaunchMachine(machine=machine.key))]
    return []
