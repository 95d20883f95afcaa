"""What a change of the cluster means to the other services: pure, from the old and the new record to messages.

A pod that no longer waits, or any object that is gone, needs no message: the mirror shows it to whoever plans with it.
"""

from __future__ import annotations

import msgspec

from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node, provider_instance_id
from shared.domain.pools.nodepools import NodeClass, NodePool
from shared.domain.workloads.pods import Pod, is_provisionable
from shared.redis import streams
from shared.redis.messages import (
    LaunchMachine,
    Message,
    NodeClassChanged,
    NodeJoined,
    NodePoolChanged,
    PodUnschedulable,
    TerminateMachine,
)

Record = msgspec.Struct | None
Addressed = tuple[str, Message]
"""Stream and message."""


def messages_for(old: Record, new: Record, *, generation: int, version: str) -> list[Addressed]:
    """The messages for each service that has to act. ``version`` tells repeats from new changes."""
    if isinstance(new, Pod):
        return _pod(old, new, generation)
    if isinstance(new, Node):
        return _node(old, new, version)
    if isinstance(new, Machine):
        return _machine(old, new, version)
    if isinstance(new, NodeClass):
        if isinstance(old, NodeClass) and old.generation == new.generation:
            return []
        changed = NodeClassChanged(node_class=new.key, generation=new.generation)
        return [(streams.MACHINES, changed)]
    if isinstance(new, NodePool):
        if isinstance(old, NodePool) and old.generation == new.generation:
            return []
        edited = NodePoolChanged(pool=new.key, generation=new.generation)
        return [(streams.MACHINES, edited)]
    return []


def _pod(old: Record, pod: Pod, generation: int) -> list[Addressed]:
    waited = isinstance(old, Pod) and is_provisionable(old)
    if waited or not is_provisionable(pod):
        return []
    return [(streams.PODS, PodUnschedulable(uid=pod.uid, pod=pod.key, generation=generation))]


def _node(old: Record, node: Node, version: str) -> list[Addressed]:
    if node.terminating:
        known = isinstance(old, Node) and old.terminating
        if known or not node.waits_for_us:
            return []
        order = TerminateMachine(
            kind="Node", name=node.name, reason="node deleted", resource_version=version
        )
        return [(streams.TERMINATIONS, order)]
    if provider_instance_id(node.provider_id) and not node.is_initialized:
        return [(streams.MACHINES, NodeJoined(node=node.name, resource_version=version))]
    return []


def _machine(old: Record, machine: Machine, version: str) -> list[Addressed]:
    if machine.terminating:
        if isinstance(old, Machine) and old.terminating:
            return []
        return [(streams.TERMINATIONS, TerminateMachine.of(machine, "deleted", version))]
    if old is None and not machine.provider_id:
        return [(streams.LAUNCHES, LaunchMachine(machine=machine.key))]
    return []
