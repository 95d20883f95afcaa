"""The steps that a scenario applies to a running workload: change its nodes, wait for the result, check it.

Each act ends with ``stage.nodes`` and ``stage.pods`` set to the state after it. Acts in which Dovetail disrupts
machines are in ``removals``.
"""

from __future__ import annotations

from cli.demo.snapshot import NodeView, Snapshot
from cli.demo.stage import Stage
from shared.domain.machines.machine import INITIALIZED
from shared.domain.nodes import provider_instance_id
from shared.kube.resources import NODES


async def interrupt(stage: Stage) -> None:
    """Send a spot notice to the busiest node. Its pods must run again, on another offering."""
    old = busiest(stage)
    async with stage.phase(f"spot interruption notice for {old.name}"):
        await stage.emulator.interrupt(provider_instance_id(old.provider_id))
        await stage.until(
            lambda s: (
                any(m.provider_id == old.provider_id and m.leaving for m in s.machines)
                or all(m.provider_id != old.provider_id for m in s.machines)
            ),
            "the interrupted Machine was not deleted",
        )
    new = await replaced(stage, old)
    pool = (old.instance_type, old.zone)
    avoided = all((node.instance_type, node.zone) != pool for node in new)
    detail = f"{old.instance_type} in {old.zone} is " + ("avoided" if avoided else "bought again")
    stage.check("interrupted offering", avoided, detail)


async def delete_node(stage: Stage) -> None:
    """Delete the busiest Node object. Its finalizer drains and terminates; the pods run on other nodes."""
    old = busiest(stage)
    async with stage.phase(f"kubectl delete node {old.name}"):
        await order_deletion(stage, old)
    await replaced(stage, old)


async def order_deletion(stage: Stage, old: NodeView) -> None:
    """Delete the Node object and wait for its deletion timestamp. Raises StoryFailed."""
    await stage.kube.delete(NODES, old.name)
    await stage.until(
        lambda s: all(node.leaving for node in s.nodes if node.name == old.name),
        "the node was not marked for deletion",
    )


async def replaced(stage: Stage, old: NodeView) -> tuple[NodeView, ...]:
    """Wait until ``old`` is gone and its pods run on other nodes. Returns the nodes at that time."""
    expected = stage.scenario.pods
    async with stage.phase("drain, replace, terminate"):
        await stage.until(
            lambda s: s.running == expected and is_gone(s, old) and all_initialized(s),
            f"{old.name} is not replaced and gone, with all {expected} pods running elsewhere",
        )
    remember(stage)
    return stage.nodes


def is_gone(snapshot: Snapshot, old: NodeView) -> bool:
    """Whether neither the node nor a live instance of it exists."""
    return all(node.provider_id != old.provider_id for node in snapshot.nodes) and all(
        instance.instance_id != provider_instance_id(old.provider_id)
        for instance in snapshot.live_instances
    )


def all_initialized(snapshot: Snapshot) -> bool:
    """Whether every machine that is not terminating is initialized."""
    machines = [machine for machine in snapshot.machines if not machine.leaving]
    return all(INITIALIZED in machine.reached for machine in machines)


def remember(stage: Stage) -> None:
    """Store the pods and nodes for the report, at the time when the workload is complete."""
    snapshot = stage.snapshot
    stage.pods = (snapshot.total, snapshot.running, snapshot.pending)
    stage.nodes = tuple(node for node in snapshot.nodes if not node.leaving)


def busiest(stage: Stage) -> NodeView:
    """The node with the most pods of the workload."""
    return max(stage.nodes, key=lambda node: (node.pods, node.name))
