"""How many pods a gang has at least, and within which topology, as an object of its own says: a PodGroup or a Workload.
Pure (SCH-114, SCH-115).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from shared.domain.workloads.pods import Pod

WORKLOAD = "Workload"
SCHEDULING_GROUP = "PodGroup.scheduling.k8s.io"
"""Kubernetes' own PodGroup."""


class GangSizes(msgspec.Struct, frozen=True, omit_defaults=True):
    """The gangs that one object describes. ``sizes``: name of the gang, as its pods have it, -> number of pods;
    ``singles``: names of groups whose pods are placed one by one; ``topology``: the label of which all nodes have one
    value, empty for none."""

    kind: str
    namespace: str
    name: str
    sizes: dict[str, int] = {}
    singles: tuple[str, ...] = ()
    topology: str = ""

    @property
    def key(self) -> str:
        """``kind/namespace/name``."""
        return f"{self.kind}/{self.namespace}/{self.name}"


def workload_gang(workload: str, group: str, replica: str = "") -> str:
    """The gang of a pod with ``spec.workloadRef``. Labels cannot have such a name, so no other gang has it."""
    return "/".join(filter(None, (WORKLOAD, workload, group, replica)))


def group_gang(name: str) -> str:
    """The gang of a pod with ``spec.schedulingGroup``. Labels cannot have such a name either."""
    return f"{SCHEDULING_GROUP}/{name}"


def with_sizes(pods: Iterable[Pod], described: Iterable[GangSizes]) -> Iterable[Pod]:
    """The pods with the sizes and topologies of their gangs. What a pod says itself stays."""
    known: dict[tuple[str, str], _Described | None] = {}
    for one in described:
        known |= {
            (one.namespace, n): _Described(size, one.topology) for n, size in one.sizes.items()
        }
        known.update(((one.namespace, name), None) for name in one.singles)
    if not known:
        return pods
    return (_sized(pod, known) for pod in pods)


class _Described(NamedTuple):
    size: int = 0
    topology: str = ""


def _sized(pod: Pod, known: Mapping[tuple[str, str], _Described | None]) -> Pod:
    if not pod.gang:
        return pod
    # Each replica of a group in a Workload is a gang of the group's size.
    whole = "/".join(pod.gang.split("/")[:3])
    found = known.get((pod.namespace, whole), _Described())
    if found is None:  # its pods are placed one by one
        return replace(pod, gang="", gang_size=0)
    size, topology = pod.gang_size or found.size, pod.gang_topology or found.topology
    if (size, topology) == (pod.gang_size, pod.gang_topology):
        return pod
    return replace(pod, gang_size=size, gang_topology=topology)
