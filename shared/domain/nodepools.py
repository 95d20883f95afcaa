"""A node pool and a node class in the one model that the whole product uses, whichever generation stored them."""

from __future__ import annotations

import msgspec

from shared.domain import labels as keys
from shared.domain.expressions import Expression, Taint

V1ALPHA5 = "v1alpha5"
V1 = "v1"


class NodePool(msgspec.Struct, frozen=True, omit_defaults=True):
    """What kind of machines may be bought, and when they go again."""

    uid: str
    name: str
    generation_api: str = V1ALPHA5
    """Which API generation stores it: decides record kind, label and semantics (MAP-01, MAP-02)."""
    generation: int = 0
    node_class: str = ""
    requirements: tuple[Expression, ...] = ()
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    kubelet: dict[str, object] = {}
    limits: dict[str, int] = {}
    weight: int = 0
    empty_ttl_seconds: float | None = None
    """v1alpha5 ttlSecondsAfterEmpty; None: empty nodes stay (P-08)."""
    expire_seconds: float | None = None
    consolidation: bool = False
    terminating: bool = False
    usage: dict[str, int] = {}
    """status.resources."""

    @property
    def label_key(self) -> str:
        return keys.PROVISIONER_NAME if self.generation_api == V1ALPHA5 else keys.NODE_POOL


class SubnetRef(msgspec.Struct, frozen=True):
    """A resolved subnet of a node class."""

    id: str
    zone: str


class NodeClass(msgspec.Struct, frozen=True, omit_defaults=True):
    """How AWS is to build the machines. Selectors are v1alpha1 maps (T-10)."""

    uid: str
    name: str
    generation: int = 0
    subnet_selector: dict[str, str] = {}
    security_group_selector: dict[str, str] = {}
    ami_selector: dict[str, str] = {}
    ami_family: str = "AL2"
    instance_profile: str = ""
    user_data: str = ""
    context: str = ""
    detailed_monitoring: bool = False
    tags: dict[str, str] = {}
    launch_template: str = ""
    metadata_options: dict[str, object] = {}
    block_device_mappings: tuple[dict[str, object], ...] = ()
    subnets: tuple[SubnetRef, ...] = ()
    """status.subnets; empty until the launcher resolved the selector."""
    ready: bool = False
    """The launcher found subnets, security groups and images."""
    fault: str = ""
    """Why it is not ready, for people."""
    terminating: bool = False


def by_preference(pools: list[NodePool]) -> list[NodePool]:
    """NP-22: weight descending, then name descending."""
    return sorted(pools, key=lambda pool: (pool.weight, pool.name), reverse=True)
