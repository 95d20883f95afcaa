"""What a kubelet makes of a pod whose resources were changed in place: done, deferred or infeasible. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from local.cluster.control_plane.conditions import with_conditions
from local.cluster.control_plane.informers import Obj
from local.cluster.scheduling.quantities import amounts, pod_requests

PENDING = "PodResizePending"
DEFERRED, INFEASIBLE = "Deferred", "Infeasible"
ENDED = ("Succeeded", "Failed")


def is_due(pod: Obj) -> bool:
    """Do its running containers have other resources than it asks for?"""
    status = pod.get("status") or {}
    held = {one["name"]: one.get("resources") for one in status.get("containerStatuses") or ()}
    return any(
        held.get(one["name"]) is not None and held[one["name"]] != (one.get("resources") or {})
        for one in pod["spec"].get("containers") or ()
    )


def is_deferred(status: dict[str, Any]) -> bool:
    """Does the resize of a pod with this status wait for room?"""
    conditions = status.get("conditions") or ()
    return any(one["type"] == PENDING and one.get("reason") == DEFERRED for one in conditions)


def status_of(
    pod: Obj, others: Iterable[Obj], allocatable: dict[str, Any], now: str
) -> dict[str, Any]:
    """The fields of the status that change. ``others``: pods of the same node; ``allocatable``: of the node."""
    room = amounts(allocatable)
    wanted = pod_requests(pod["spec"])
    if _exceeds(wanted, room):
        return _pending(pod, INFEASIBLE, "the node is smaller than the pod asks for", now)
    for other in others:
        if other["metadata"]["uid"] == pod["metadata"]["uid"]:
            continue
        if (other.get("status") or {}).get("phase") in ENDED:
            continue
        for name, amount in _allocated(other).items():
            room[name] = room.get(name, 0) - amount
    if _exceeds(wanted, room):
        return _pending(pod, DEFERRED, "the node has no room for the resize now", now)
    held = (pod["status"]).get("conditions") or ()
    return {
        "conditions": [one for one in held if one["type"] != PENDING],
        "containerStatuses": with_resources(pod, pod["status"]["containerStatuses"]),
    }


def with_resources(pod: Obj, statuses: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The statuses with what the kubelet gives to each container: what it asks for."""
    given = {one["name"]: one.get("resources") or {} for one in pod["spec"].get("containers") or ()}
    return [
        {
            **one,
            "resources": given.get(one["name"], {}),
            "allocatedResources": given.get(one["name"], {}).get("requests") or {},
        }
        for one in statuses
    ]


def _allocated(pod: Obj) -> dict[str, int]:
    """What a pod holds: what the kubelet gave it, while a resize of its own waits."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    held = {one["name"]: one["resources"] for one in statuses if one.get("resources") is not None}
    containers = [
        {**one, "resources": held.get(one["name"], one.get("resources") or {})}
        for one in pod["spec"].get("containers") or ()
    ]
    return pod_requests({**pod["spec"], "containers": containers})


def _exceeds(wanted: dict[str, int], room: dict[str, int]) -> bool:
    return any(amount > room.get(name, 0) for name, amount in wanted.items() if amount)


def _pending(pod: Obj, reason: str, message: str, now: str) -> dict[str, Any]:
    condition = {"type": PENDING, "status": "True", "reason": reason, "message": message}
    return {"conditions": with_conditions(pod["status"].get("conditions"), [condition], now)}
