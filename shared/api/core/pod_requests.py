"""The resources that a pod needs on a node (SCH-60): containers, init containers, pod level, overhead, resizes.

While a pod is resized in place it counts with the greatest of what it asks for, what the kubelet has allocated and what
its containers have, as kube-scheduler counts it. So a resize that is deferred keeps room, and one that shrinks gives it
back when it is done. A resize that the kubelet calls infeasible will never happen on this node: what the pod asks for
does not count then. Invalid quantities, and quantities that no machine has, raise InvalidObject naming the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from shared.api.shapes import entries, mapping, text
from shared.domain import resources
from shared.domain.workloads.pods import RequestParts
from shared.errors import InvalidObject

Json = Mapping[str, Any]
_NOTHING: Json = {}
_REFUSED = ("PodResizePending", "True", "Infeasible")


class _Allocated(NamedTuple):
    """Container name -> resources that it holds; ``infeasible``: what it asks for instead will never come."""

    held: Mapping[str, dict[str, int]]
    infeasible: bool = False


def pod_requests(spec: Json, status: Json = _NOTHING) -> dict[str, int]:
    """The requests of the whole pod, including ``pods: 1`` (SCH-60). ``status``: as of an in-place resize. Raises
    InvalidObject."""
    allocated = _allocated(status)
    steady = resources.sum_of(
        _container(c, f"spec.containers[{i}]", allocated)
        for i, c in enumerate(entries(spec.get("containers"), "spec.containers"))
    )
    sidecars, peak = _init_containers(spec, allocated)
    total = _of_whole_pod(spec, status, resources.at_least(resources.add(steady, sidecars), peak))
    overhead = resources.parse_resources(spec.get("overhead"), field="spec.overhead")
    return _representable(resources.add(total, overhead, {resources.PODS: 1}))


def request_parts(spec: Json) -> RequestParts | None:
    """CPU and memory by part. None where the pod as a whole says what it requests, which no autoscaler changes. Raises
    InvalidObject."""
    if spec.get("resources"):
        return None
    nobody = _allocated({})
    found = entries(spec.get("containers"), "spec.containers")
    containers = {
        text(one.get("name"), f"spec.containers[{i}].name"): _scalable(
            _container(one, f"spec.containers[{i}]", nobody)
        )
        for i, one in enumerate(found)
    }
    sidecars, peak = _init_containers(spec, nobody)
    overhead = resources.parse_resources(spec.get("overhead"), field="spec.overhead")
    return RequestParts(
        containers,
        _scalable(resources.add(sidecars, overhead)),
        _scalable(resources.add(peak, overhead)),
    )


def _scalable(amounts: Mapping[str, int]) -> dict[str, int]:
    names = (resources.CPU, resources.MEMORY)
    return {name: amounts[name] for name in names if name in amounts}


def _of_whole_pod(spec: Json, status: Json, of_containers: dict[str, int]) -> dict[str, int]:
    """Pod-level ``spec.resources`` replaces the sum of the containers, for the resources for which Kubernetes supports
    it; a limit is the default of a missing request. They too may be resized in place."""
    pod_level = mapping(spec.get("resources"), "spec.resources")
    limits, requests = (
        resources.parse_resources(pod_level.get(name), field=f"spec.resources.{name}")
        for name in ("limits", "requests")
    )
    if held := _held(status, "status") if pod_level else {}:
        requests = held if _is_infeasible(status) else resources.at_least(requests, held)
    counted = {**limits, **of_containers, **requests}
    whole = {name: amount for name, amount in counted.items() if _is_of_whole_pods(name)}
    return {**of_containers, **whole}


def _is_of_whole_pods(name: str) -> bool:
    return name in (resources.CPU, resources.MEMORY) or name.startswith("hugepages-")


def _init_containers(spec: Json, allocated: _Allocated) -> tuple[dict[str, int], dict[str, int]]:
    """The sum of the sidecars, and the peak while the init containers run one after the other."""
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    found = entries(spec.get("initContainers"), "spec.initContainers")
    for index, container in enumerate(found):
        request = _container(container, f"spec.initContainers[{index}]", allocated)
        if container.get("restartPolicy") == "Always":
            sidecars = resources.add(sidecars, request)
            request = {}
        peak = resources.at_least(peak, resources.add(sidecars, request))
    return sidecars, peak


def _container(container: Json, field: str, allocated: _Allocated) -> dict[str, int]:
    raw = mapping(container.get("resources"), f"{field}.resources")
    limits = mapping(raw.get("limits"), f"{field}.resources.limits")
    requests = mapping(raw.get("requests"), f"{field}.resources.requests")
    requested = resources.parse_resources(
        {**limits, **requests}, field=f"{field}.resources.requests"
    )
    held = allocated.held.get(text(container.get("name"), f"{field}.name"))
    if not held:
        return requested
    return held if allocated.infeasible else resources.at_least(requested, held)


def _allocated(status: Json) -> _Allocated:
    found = {}
    for kind in ("containerStatuses", "initContainerStatuses"):
        for index, one in enumerate(entries(status.get(kind), f"status.{kind}")):
            field = f"status.{kind}[{index}]"
            if held := _held(one, field):
                found[text(one.get("name"), f"{field}.name")] = held
    return _Allocated(found, bool(found) and _is_infeasible(status))


def _held(status: Json, field: str) -> dict[str, int]:
    """The greater of what the kubelet has allocated and what is in force, of a container or a whole pod."""
    actual = mapping(status.get("resources"), f"{field}.resources").get("requests")
    return resources.at_least(
        resources.parse_resources(
            status.get("allocatedResources"), field=f"{field}.allocatedResources"
        ),
        resources.parse_resources(actual, field=f"{field}.resources.requests"),
    )


def _is_infeasible(status: Json) -> bool:
    """Did the kubelet refuse the resize for good? ``status.resize`` said so before Kubernetes 1.33."""
    return status.get("resize") == "Infeasible" or any(
        (one.get("type"), one.get("status"), one.get("reason")) == _REFUSED
        for one in entries(status.get("conditions"), "status.conditions")
    )


def _representable(total: dict[str, int]) -> dict[str, int]:
    """``total``, after a check that every sum fits in 64 bits."""
    for name, amount in total.items():
        if amount > resources.LARGEST_AMOUNT:
            raise InvalidObject(
                f"the containers request more {name} in total than any machine has; lower their requests",
                field="spec.containers",
            )
    return total
