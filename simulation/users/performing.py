"""Does one action, through the API server as kubectl does, or in EC2 as a person does in AWS's console.

A person reads an error message and goes on: an object that is missing, refused or changed meanwhile, and an API server
that does not answer, end the action and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from local.aws.capacity.reservations import Reservation
from local.aws.ec2.instances import Instance
from shared.cloud.ec2.ownership import cluster_tag
from shared.errors import AlreadyExists, DovetailError, InvalidObject
from shared.kube.client import Kube, Object
from shared.kube.resources import (
    AWS_NODE_TEMPLATES,
    CAPACITY_BUFFERS,
    DAEMON_SETS,
    EC2_NODE_CLASSES,
    MACHINES,
    NODE_CLAIMS,
    NODE_OVERLAYS,
    NODE_POOLS,
    NODES,
    PDBS,
    PODS,
    PROVISIONERS,
    STORAGE_CLASSES,
    Resource,
)
from simulation.users.actions import Action, What
from simulation.users.workloads import NAMESPACE

if TYPE_CHECKING:
    from simulation.world import World

KINDS = {
    resource.plural: resource
    for resource in (
        Resource("apps", "v1", "deployments", "Deployment", True),
        Resource("apps", "v1", "statefulsets", "StatefulSet", True),
        Resource("batch", "v1", "jobs", "Job", True),
        PDBS,
        PODS,
        NODE_POOLS,
        PROVISIONERS,
        EC2_NODE_CLASSES,
        AWS_NODE_TEMPLATES,
        NODE_OVERLAYS,
        CAPACITY_BUFFERS,
        STORAGE_CLASSES,
        DAEMON_SETS,
    )
}
"""The kinds that people write, by plural."""
BY_HAND = (
    "Client.UserInitiatedShutdown",
    "Client.UserInitiatedShutdown: a person in the console",
)
"""The state reason of an instance that a person ended, which EC2 itself words without the last part."""
RESERVED_FAMILIES = ("m5.", "c5.", "m6i.")
FAILED, NO_ANSWER = "failed", "no answer"
UNDONE = (FAILED, NO_ANSWER)
MOST_REPEATS, REPEAT_SECONDS = 20, 5.0
Item = TypeVar("Item")


async def repeated(
    action: Action,
    once: Callable[[], Awaitable[str]],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> str:
    """What became of the action at last. ``once``: does it once."""
    outcome = await once()
    for _ in range(MOST_REPEATS if action.until_done else 0):
        if not outcome.startswith(UNDONE):
            break
        await sleep(REPEAT_SECONDS)
        outcome = await once()
    return outcome


async def perform(action: Action, world: World) -> str:
    """Do ``action``; returns what became of it, in a few words. Raises nothing that a person would survive."""
    try:
        return await _perform(action, world)
    except (DovetailError, TimeoutError) as error:
        return f"{FAILED}: {type(error).__name__} {str(error)[:200]}"


async def _perform(action: Action, world: World) -> str:
    match action.what:
        case What.TERMINATE_INSTANCE | What.STOP_INSTANCE:
            return _end_instance(action, world)
        case What.RESERVE:
            return _reserve(action, world)
        case What.DELETE_NODE | What.DRAIN_NODE | What.CORDON_NODE | What.UNCORDON_NODES:
            return await _with_nodes(action, world.kube)
        case What.DELETE_MACHINE:
            return await _delete_machine(action, world.kube)
        case What.DELETE_PODS:
            return await _delete_pods(action.name, world.kube)
        case _:
            return await _with_object(action, world.kube)


async def _with_object(action: Action, kube: Kube) -> str:
    resource = KINDS[action.kind]
    namespace = NAMESPACE if resource.namespaced else None
    match action.what:
        case What.APPLY:
            return await _apply(kube, resource, action.body, namespace)
        case What.DELETE:
            await kube.delete(resource, action.name, namespace)
        case _:
            await kube.patch(resource, action.name, action.body, namespace)
    return "done"


async def _apply(kube: Kube, resource: Resource, body: Object, namespace: str | None) -> str:
    try:
        await kube.create(resource, body, namespace)
    except AlreadyExists:
        await kube.patch(resource, body["metadata"]["name"], body, namespace)
        return "changed"
    except InvalidObject as error:
        return f"refused: {error.message[:200]}"
    return "created"


async def _delete_pods(name: str, kube: Kube) -> str:
    pods = (await kube.list(PODS, NAMESPACE, label_selector=f"app={name}")).items
    for pod in pods:
        await kube.delete(PODS, pod["metadata"]["name"], NAMESPACE, uid=pod["metadata"]["uid"])
    return f"{len(pods)} pods"


async def _delete_machine(action: Action, kube: Kube) -> str:
    found = [
        (resource, raw["metadata"]["name"])
        for resource in (MACHINES, NODE_CLAIMS)
        for raw in (await kube.list(resource)).items
    ]
    chosen = choose(found, action.choice)
    if chosen is None:
        return "there is none"
    await kube.delete(*chosen)
    return f"deleted {chosen[0].kind}/{chosen[1]}"


async def _with_nodes(action: Action, kube: Kube) -> str:
    nodes = [raw["metadata"]["name"] for raw in (await kube.list(NODES)).items]
    if action.what is What.UNCORDON_NODES:
        for name in nodes:
            await kube.patch(NODES, name, {"spec": {"unschedulable": None}})
        return f"{len(nodes)} nodes"
    name = choose(nodes, action.choice)
    if name is None:
        return "there is none"
    if action.what is What.DELETE_NODE:
        await kube.delete(NODES, name)
        return f"deleted Node/{name}"
    await kube.patch(NODES, name, {"spec": {"unschedulable": True}})
    return await _evict_all(name, kube) if action.what is What.DRAIN_NODE else f"cordoned {name}"


async def _evict_all(node: str, kube: Kube) -> str:
    """As ``kubectl drain --ignore-daemonsets`` begins; a person gives up on pods that a budget holds."""
    pods = (await kube.list(PODS, field_selector=f"spec.nodeName={node}")).items
    evicted = 0
    for pod in pods:
        meta = pod["metadata"]
        owners = meta.get("ownerReferences") or []
        if any(owner["kind"] in ("DaemonSet", "Node") for owner in owners):
            continue
        try:
            await kube.evict(meta["name"], meta["namespace"], uid=meta["uid"])
            evicted += 1
        except DovetailError:
            continue
    return f"cordoned {node}, evicted {evicted} of {len(pods)} pods"


def _end_instance(action: Action, world: World) -> str:
    """What the console's buttons do; the instances of other clusters are not shown."""
    emulator = world.emulator
    tag = cluster_tag(emulator.settings.cluster_name)
    shown = [one for one in emulator.inventory.all() if tag in one.tags and one.state == "running"]
    instance = choose(sorted(shown, key=_sequence), action.choice)
    if instance is None:
        return "there is none"
    if action.what is What.STOP_INSTANCE:
        emulator.inventory.stop(instance)
        return f"stopped {instance.instance_id}"
    emulator.inventory.terminate(instance, BY_HAND)
    return f"terminated {instance.instance_id}"


def _reserve(action: Action, world: World) -> str:
    """A capacity reservation of a type that pools of a run may use."""
    emulator = world.emulator
    offered = sorted(
        (name, zone)
        for name, zone in emulator.catalogue.offered(emulator.settings.region)
        if name.startswith(RESERVED_FAMILIES)
    )
    name, zone = offered[int(action.choice * len(offered))]
    seconds, ids = action.body["seconds"], emulator.catalogue.zone_ids
    ends_at = None if seconds is None else world.clock.now() + seconds
    found = Reservation(
        name, zone, ids[zone], action.body["count"], ends_at=ends_at, tags=action.body["tags"]
    )
    emulator.reservations.add(found)
    return f"reserved {name} in {zone}: {found.reservation_id}"


def _sequence(instance: Instance) -> int:
    return instance.sequence


def choose(items: Sequence[Item], choice: float) -> Item | None:
    """The item at this share (0 to 1) of the sequence; None of an empty one."""
    return items[min(int(choice * len(items)), len(items) - 1)] if items else None
