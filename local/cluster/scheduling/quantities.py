"""Resource amounts of pods and nodes as integers: CPU in millicores, every other resource in its own unit (bytes,
pieces).

Requests follow k8s.io/component-helpers ``resource.PodRequests`` (Kubernetes 1.32): the requests of containers are
added; the init containers count with the largest sum that runs at one time; a sidecar (an init container with
restartPolicy Always) keeps running and is added; the pod's overhead is added last. A missing request takes the value of
the limit, as the API server's defaulting does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any

from shared.domain.resources import parse_quantity

DEFAULT_MILLI_CPU = 100
"""CPU of a container without a CPU request in scores (kube-scheduler's DefaultMilliCPURequest)."""
DEFAULT_MEMORY_BYTES = 200 * 2**20
"""Memory of a container without a memory request in scores (kube-scheduler's DefaultMemoryRequest)."""

Resources = dict[str, int]


# A cluster of thousands of pods repeats a few hundred texts; the bound keeps arbitrary objects from filling memory.
@lru_cache(maxsize=4096)
def _parsed(text: str) -> Decimal:
    return parse_quantity(text, field="quantity")


def amount(resource: str, quantity: str | int | float) -> int:
    """A quantity as an integer, rounded up: millicores for ``cpu``, the plain unit otherwise.

    Raises InvalidObject.
    """
    value = _parsed(str(quantity))
    if resource == "cpu":
        value *= 1000
    return int(value.to_integral_value(rounding=ROUND_CEILING))


def amounts(quantities: Mapping[str, Any] | None) -> Resources:
    """A ResourceList as integers. Raises InvalidObject."""
    return {name: amount(name, quantity) for name, quantity in (quantities or {}).items()}


def container_requests(container: Mapping[str, Any]) -> Resources:
    """Requests of one container; a missing request takes the value of the limit."""
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _add(total: Resources, more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise_to(total: Resources, least: Mapping[str, int]) -> None:
    for name, value in least.items():
        total[name] = max(total.get(name, 0), value)


def pod_requests(spec: Mapping[str, Any]) -> Resources:
    """Amounts that the pod needs on its node, with ``pods: 1``."""
    total: Resources = {}
    for container in spec.get("containers") or ():
        _add(total, container_requests(container))
    sidecars: Resources = {}
    highest_start: Resources = {}
    for container in spec.get("initContainers") or ():
        requests = container_requests(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, requests)
            _raise_to(highest_start, sidecars)
        else:
            running = dict(sidecars)
            _add(running, requests)
            _raise_to(highest_start, running)
    _add(total, sidecars)
    _raise_to(total, highest_start)
    _add(total, amounts(spec.get("overhead")))
    total["pods"] = 1
    return total


def scoring_requests(spec: Mapping[str, Any]) -> tuple[int, int]:
    """(millicores, bytes) for scores; a container without a request counts with the defaults above."""
    cpu = memory = 0
    for container in spec.get("containers") or ():
        requests = container_requests(container)
        cpu += requests.get("cpu", DEFAULT_MILLI_CPU)
        memory += requests.get("memory", DEFAULT_MEMORY_BYTES)
    return cpu, memory


def host_ports(containers: Iterable[Mapping[str, Any]]) -> frozenset[tuple[str, str, int]]:
    """(address, protocol, port) of every host port; address 0.0.0.0 when none is named."""
    return frozenset(
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])
        for container in containers
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )
