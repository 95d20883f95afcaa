"""Resource claims of pods for the scheduler (kube-scheduler's DynamicResources).

A node takes a pod when each of its claims can be allocated there, or is. Claims are allocated and reserved directly
before the pod is bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from local.cluster.api.errors import ApiError, conflict
from local.cluster.builtin.resources import DEVICE_GROUP
from local.cluster.control_plane.informers import Obj
from local.cluster.scheduling.device_allocation import Chosen, allocate
from local.cluster.scheduling.shapes import PodInfo, PodShape
from local.cluster.scheduling.state import NodeState
from local.cluster.storage.store import Store
from shared.api.hardware.device_claims import (
    parse_device_class,
    parse_resource_claim,
    parse_resource_slice,
)
from shared.domain.devices.demands import Alternative, Claims
from shared.domain.devices.inventory import PublishedDevices
from shared.domain.devices.records import ResourceClaim
from shared.errors import InvalidObject

CANNOT_ALLOCATE = "cannot allocate all claims"
ELSEWHERE = "resourceclaim not available on the node"
MOST_USERS = 256
"""Pods for which a claim may be reserved."""


class PodDevices:
    """The constraints by the current claims of pods."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def refusal(self, shape: PodShape) -> str:
        """The reason why no node at all can run pods of this shape; empty when one could."""
        try:
            for name in shape.device_claims:
                claim = self._claim(shape, name)
                if claim is None:
                    return f'waiting for resource claim "{name}" to be created'
                if claim["metadata"].get("deletionTimestamp"):
                    return f'resourceclaim "{name}" is being deleted'
                self._alternatives(claim)
        except InvalidObject as error:
            return str(error)
        return ""

    def checks(self, shape: PodShape) -> list[Callable[[NodeState], str]]:
        """One check for all claims; ``refusal`` must have been empty."""
        claims = [c for name in shape.device_claims if (c := self._claim(shape, name)) is not None]
        wanted = [(parse_resource_claim(claim), self._alternatives(claim)) for claim in claims]
        published = self._published()

        def check(node: NodeState) -> str:
            held: list[ResourceClaim] = []
            for claim, alternatives in wanted:
                if claim.is_allocated:
                    if claim.node_names and node.name not in claim.node_names:
                        return ELSEWHERE
                    continue
                found = allocate(alternatives, published(held).on(node.name))
                if found is None:
                    return CANNOT_ALLOCATE
                held.append(_holding(claim, found))
            return ""

        return [check]

    def bind(self, pod: PodInfo, node: NodeState) -> None:
        """Allocate the claims of a pod on its node, and reserve them for it. Raises ApiError."""
        for name in pod.shape.device_claims:
            claim = self._claim(pod.shape, name)
            if claim is None:
                raise self._conflict(name, "it is gone")
            status: dict[str, Any] = {**(claim.get("status") or {})}
            if not status.get("allocation"):
                found = allocate(self._alternatives(claim), self._published()([]).on(node.name))
                if found is None:
                    raise self._conflict(name, f"its devices on {node.name} are taken")
                status["allocation"] = _allocation(found, node.name)
            user = {"resource": "pods", "name": pod.key.name, "uid": pod.uid}
            users = [one for one in status.get("reservedFor") or () if one["uid"] != pod.uid]
            if len(users) >= MOST_USERS:
                raise self._conflict(name, f"it is reserved for {MOST_USERS} pods")
            status["reservedFor"] = [*users, user]
            self._store.update(
                "resourceclaims",
                {**claim, "status": status},
                group=DEVICE_GROUP,
                namespace=pod.shape.namespace,
                subresource="status",
            )

    def _conflict(self, name: str, why: str) -> ApiError:
        return conflict(self._store.resource("resourceclaims", DEVICE_GROUP), name, why)

    def _claim(self, shape: PodShape, name: str) -> Obj | None:
        if not name:
            return None
        return self._store.find(
            "resourceclaims", name, group=DEVICE_GROUP, namespace=shape.namespace
        )

    def _alternatives(self, claim: Obj) -> list[Alternative]:
        classes = map(parse_device_class, self._store.list("deviceclasses", group=DEVICE_GROUP))
        return Claims((), (), classes).of_claim(parse_resource_claim(claim))

    def _published(self) -> Callable[[list[ResourceClaim]], PublishedDevices]:
        """The devices of all nodes; with further claims that hold some of them."""
        slices = list(
            map(parse_resource_slice, self._store.list("resourceslices", group=DEVICE_GROUP))
        )
        claims = list(
            map(parse_resource_claim, self._store.list("resourceclaims", group=DEVICE_GROUP))
        )
        return lambda held: PublishedDevices(slices, [*claims, *held])


def _holding(claim: ResourceClaim, found: list[Chosen]) -> ResourceClaim:
    devices = tuple(one.allocated for one in found)
    return ResourceClaim(claim.uid, claim.namespace, f"{claim.name}/allocated", devices=devices)


def _allocation(found: list[Chosen], node: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "devices": {"results": [_result(one) for one in found]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }


def _result(chosen: Chosen) -> dict[str, Any]:
    one = chosen.allocated
    result: dict[str, Any] = {
        "request": chosen.request,
        "driver": one.driver,
        "pool": one.pool,
        "device": one.device,
    }
    if one.admin:
        result["adminAccess"] = True
    if one.consumed:
        result["consumedCapacity"] = {name: str(amount) for name, amount in one.consumed.items()}
    return result
