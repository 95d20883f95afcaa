"""The resources that a pod needs on a node (SCH-60): containers, init containers, pod level, overhead, resizes.

Invalid quantities, and quantities that no machine has, raise InvalidObject naming the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.shapes import entries, mapping, text
from shared.domain import resources
from shared.errors import InvalidObject

Json = Mapping[str, Any]
_Allocated = Mapping[str, dict[str, int]]
_NOTHING: Json = {}


def pod_requests(spec: Json, status: Json = _NOTHING) -> dict[str, int]:
    """The requests of the whole pod, including ``pods: 1`` (SCH-60). ``status`` has the resources that are still
    allocated during an in-place resize. Raises InvalidObject."""
    allocated = _allocated(status)
    steady = resources.sum_of(
        _container(c, f"spec.containers[{i}]", allocated)
        for i, c in enumerate(entries(spec.get("containers"), "spec.containers"))
    )
    sidecars, peak = _init_containers(spec, allocated)
    total = _of_whole_pod(spec, resources.at_least(resources.add(steady, sidecars), peak))
    overhead = resources.parse_resources(spec.get("overhead"), field="spec.overhead")
    return _representable(resources.add(total, overhead, {resources.PODS: 1}))


def _of_whole_pod(spec: Json, of_containers: dict[str, int]) -> dict[str, int]:
    """Pod-level ``spec.resources`` replaces the sum of the containers, for the resources for which Kubernetes supports
    it; a limit is the default of a missing request."""
    pod_level = mapping(spec.get("resources"), "spec.resources")
    limits, requests = (
        resources.parse_resources(pod_level.get(name), field=f"spec.resources.{name}")
        for name in ("limits", "requests")
    )
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
    held = allocated.get(text(container.get("name"), f"{field}.name"))
    return resources.at_least(requested, held) if held else requested


def _allocated(status: Json) -> _Allocated:
    """Container name -> resources that the kubelet has allocated to it."""
    found = {}
    for kind in ("containerStatuses", "initContainerStatuses"):
        for index, one in enumerate(entries(status.get(kind), f"status.{kind}")):
            field = f"status.{kind}[{index}]"
            held = resources.parse_resources(
                one.get("allocatedResources"), field=f"{field}.allocatedResources"
            )
            if held:
                found[text(one.get("name"), f"{field}.name")] = held
    return found


def _representable(total: dict[str, int]) -> dict[str, int]:
    """``total``, after a check that every sum fits in 64 bits."""
    for name, amount in total.items():
        if amount > resources.LARGEST_AMOUNT:
            raise InvalidObject(
                f"the containers request more {name} in total than any machine has; lower their requests",
                field="spec.containers",
            )
    return total
