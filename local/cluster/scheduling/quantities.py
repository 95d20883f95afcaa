"""What pods ask for and nodes have, as integers: cpu in millicores, everything else in its own unit
(bytes, pieces).

Requests follow k8s.io/component-helpers ``resource.PodRequests`` (Kubernetes 1.32): containers add
up, an init container counts as the largest moment of the start, a sidecar (init container with
restartPolicy Always) stays, the overhead comes on top. A request that is missing is taken from the
limit, as the API server's defaulting does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

SUFFIXES: Mapping[str, Decimal] = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
DEFAULT_MILLI_CPU = 100
"""What a container without a cpu request counts as in scores (kube-scheduler's DefaultMilliCPURequest)."""
DEFAULT_MEMORY = 200 * 2**20
"""The same for memory (DefaultMemoryRequest, 200 MiB)."""

Resources = dict[str, int]


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Decimal:
    """Kubernetes' resource.Quantity. Raises ValueError when it is none."""
    number = text.rstrip("numkKMGTPEi")
    suffix = text[len(number) :]
    try:
        return Decimal(number) * SUFFIXES[suffix]
    except (InvalidOperation, KeyError) as error:
        raise ValueError(f"{text!r} is not a quantity such as 250m, 1.5 or 2Gi") from error


def amount(resource: str, quantity: str | int | float) -> int:
    """A quantity as integer, rounded up: millicores for cpu, the plain unit otherwise."""
    value = parse_quantity(str(quantity))
    if resource == "cpu":
        value *= 1000
    return int(value.to_integral_value(rounding=ROUND_CEILING))


def amounts(quantities: Mapping[str, Any] | None) -> Resources:
    """A ResourceList as integers."""
    return {name: amount(name, quantity) for name, quantity in (quantities or {}).items()}


def container_requests(container: Mapping[str, Any]) -> Resources:
    """Requests of one container; a limit stands in for a missing request."""
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _add(total: Resources, more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise_to(total: Resources, least: Mapping[str, int]) -> None:
    for name, value in least.items():
        total[name] = max(total.get(name, 0), value)


def pod_requests(spec: Mapping[str, Any]) -> Resources:
    """What the scheduler must find on one node for this pod, with ``pods: 1``."""
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
            moment = dict(sidecars)
            _add(moment, requests)
            _raise_to(highest_start, moment)
    _add(total, sidecars)
    _raise_to(total, highest_start)
    _add(total, amounts(spec.get("overhead")))
    total["pods"] = 1
    return total


def scoring_requests(spec: Mapping[str, Any]) -> tuple[int, int]:
    """(millicores, bytes) that scores count: containers without a request count as the defaults above."""
    cpu = memory = 0
    for container in spec.get("containers") or ():
        requests = container_requests(container)
        cpu += requests.get("cpu", DEFAULT_MILLI_CPU)
        memory += requests.get("memory", DEFAULT_MEMORY)
    return cpu, memory


def host_ports(containers: Iterable[Mapping[str, Any]]) -> frozenset[tuple[str, str, int]]:
    """(address, protocol, port) of every host port; address 0.0.0.0 when none is named."""
    return frozenset(
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])
        for container in containers
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )
