"""How many pods a gang has at least, as an object of its own says: a PodGroup or a Workload. Pure (SCH-114)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from shared.domain.workloads.pods import Pod

WORKLOAD = "Workload"


class GangSizes(msgspec.Struct, frozen=True, omit_defaults=True):
    """The gangs that one object describes. ``sizes``: name of the gang, as its pods have it, -> number of pods."""

    kind: str
    namespace: str
    name: str
    sizes: dict[str, int] = {}

    @property
    def key(self) -> str:
        """``kind/namespace/name``."""
        return f"{self.kind}/{self.namespace}/{self.name}"


def workload_gang(workload: str, group: str, replica: str = "") -> str:
    """The gang of a pod with ``spec.workloadRef``. Labels cannot have such a name, so no other gang has it."""
    return "/".join(filter(None, (WORKLOAD, workload, group, replica)))


def with_sizes(pods: Iterable[Pod], described: Iterable[GangSizes]) -> Iterable[Pod]:
    """The pods with the sizes of their gangs. What a pod says itself stays."""
    known = {(one.namespace, name): size for one in described for name, size in one.sizes.items()}
    if not known:
        return pods
    return (_sized(pod, known) for pod in pods)


def _sized(pod: Pod, known: dict[tuple[str, str], int]) -> Pod:
    if not pod.gang or pod.gang_size:
        return pod
    # Each replica of a group in a Workload is a gang of the group's size.
    whole = "/".join(pod.gang.split("/")[:3])
    size = known.get((pod.namespace, whole), 0)
    return replace(pod, gang_size=size) if size else pod
