"""From a Machine to the exact CreateFleet request: pure (LCH-45..53).

The request is complete: launch templates by id and version, overrides in price order, all tags, the client token.
It is stored in the LaunchRecord before it is sent, and sent again unchanged after a crash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from shared.cloud.records import tag_specification
from shared.domain import labels as keys
from shared.domain.instance_sizes import adapted
from shared.domain.instance_types import Catalogue, InstanceType, Offering
from shared.domain.machines import Machine
from shared.domain.nodepools import V1, NodeClass
from shared.domain.requirements import Requirements
from shared.domain.resources import fits
from shared.domain.size_settings import USUAL, SizeSettings
from shared.domain.snapshot import OfferingKey
from shared.errors import InsufficientCapacity

MOST_TYPES = 60
"""LCH-46."""
TOKEN_TAG = "dovetail.sh/launch-token"  # a tag key, no secret
MACHINE_TAG = "dovetail.sh/machine"
CLUSTER_NAME_TAG = "eks:eks-cluster-name"
_BY_OFFERING = frozenset({keys.ZONE, keys.ZONE_ID, keys.CAPACITY_TYPE})
_EXOTIC = ("nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron", "habana.ai/gaudi")


class Choice(msgspec.Struct, frozen=True):
    """One type with the offerings that may be asked for, cheapest first."""

    type: InstanceType
    offerings: tuple[Offering, ...]

    @property
    def price(self) -> int:
        """Of the cheapest offering."""
        return self.offerings[0].price_micro_usd_per_hour


class Template(msgspec.Struct, frozen=True):
    """A launch template that exists, and which instance types start from it."""

    id: str
    version: int
    image: str
    types: frozenset[str]


def cluster_tag(cluster: str) -> str:
    """The ownership tag's key."""
    return f"kubernetes.io/cluster/{cluster}"


def launch_token(machine_uid: str, attempt: int) -> str:
    """EC2 client token (64 characters at most) and name of the LaunchRecord: one per attempt (F1)."""
    digest = hashlib.sha256(f"{machine_uid}|{attempt}".encode()).hexdigest()
    return f"lr-{digest[:56]}"


def choose(
    machine: Machine,
    catalogue: Catalogue,
    zones: Iterable[str],
    unavailable: frozenset[OfferingKey],
    sizes: SizeSettings = USUAL,
) -> tuple[str, list[Choice]]:
    """The capacity type to ask for, and at most 60 types in price order, with the sizes that this machine gets.

    Raises InsufficientCapacity when no offering is left (LCH-53).
    """
    wanted = Requirements.of(machine.requirements)
    listed = (adapted(t, sizes) for t in catalogue.types if _is_named(t, wanted))
    candidates = [t for t in listed if _suits(t, wanted, machine)]
    offered = set(zones)
    for capacity_type in _capacity_types(wanted):
        choices = _with_offerings(candidates, wanted, capacity_type, offered, unavailable)
        if choices:
            return capacity_type, _trim(choices, candidates, wanted, capacity_type)
    raise InsufficientCapacity(
        "no capacity offerings are currently available given the constraints",
        machine=machine.name,
    )


def _capacity_types(wanted: Requirements) -> list[str]:
    """LCH-47: spot first where it is allowed."""
    rule = wanted.get(keys.CAPACITY_TYPE)
    return [c for c in (keys.SPOT, keys.ON_DEMAND) if rule is None or rule.has(c)]


def _is_named(kind: InstanceType, wanted: Requirements) -> bool:
    """Most machines name their types: no other needs to be adapted."""
    rule = wanted.get(keys.INSTANCE_TYPE)
    return rule is None or rule.has(kind.name)


def _suits(kind: InstanceType, wanted: Requirements, machine: Machine) -> bool:
    for rule in wanted:
        if rule.key in _BY_OFFERING or rule.key not in keys.WELL_KNOWN:
            continue
        values = kind.labels.get(rule.key)
        if rule.key in (keys.PROVISIONER_NAME, keys.NODE_POOL):
            continue
        if values is None and not rule.accepts_absence:
            return False
        if values is not None and not any(rule.has(value) for value in values):
            return False
    return fits(machine.requests, kind.allocatable())


def _with_offerings(
    types: list[InstanceType],
    wanted: Requirements,
    capacity_type: str,
    zones: set[str],
    unavailable: frozenset[OfferingKey],
) -> list[Choice]:
    rule = wanted.get(keys.ZONE)
    found = []
    for kind in types:
        offerings = [
            o
            for o in kind.offerings
            if o.capacity_type == capacity_type
            and o.zone in zones
            and (rule is None or rule.has(o.zone))
            and (capacity_type, kind.name, o.zone) not in unavailable
        ]
        if offerings:
            offerings.sort(key=lambda o: (o.price_micro_usd_per_hour, o.zone))
            found.append(Choice(kind, tuple(offerings)))
    return sorted(found, key=lambda choice: (choice.price, choice.type.name))


def _trim(
    choices: list[Choice], types: list[InstanceType], wanted: Requirements, capacity_type: str
) -> list[Choice]:
    """LCH-45: no metal and no accelerators while plain types remain; no spot dearer than on-demand."""
    plain = [choice for choice in choices if not _is_exotic(choice.type)]
    choices = plain or choices
    if capacity_type == keys.SPOT and keys.ON_DEMAND in _capacity_types(wanted):
        cheapest = min(
            (o.price_micro_usd_per_hour for t in types for o in t.offerings
             if o.capacity_type == keys.ON_DEMAND),
            default=None,
        )  # fmt: skip
        if cheapest is not None:
            choices = [c for c in choices if c.price <= cheapest] or choices
    return choices[:MOST_TYPES]


def _is_exotic(kind: InstanceType) -> bool:
    size = kind.labels.get(keys.AWS_PREFIX + "instance-size", ("",))[0]
    return size.startswith("metal") or any(kind.capacity.get(name) for name in _EXOTIC)


def instance_tags(
    machine: Machine, node_class: NodeClass, cluster: str, token: str
) -> dict[str, str]:
    """LCH-56: what every instance of a machine carries. Of the user's own tags only Name wins, and in v1alpha5 only."""
    ours = {cluster_tag(cluster): "owned", TOKEN_TAG: token, MACHINE_TAG: machine.name}
    if machine.generation_api == V1:
        return {**node_class.tags, **ours, **v1_tags(machine, node_class, cluster)}
    return {
        "Name": f"karpenter.sh/provisioner-name/{machine.pool}",
        **node_class.tags,
        **ours,
        keys.PROVISIONER_NAME: machine.pool,
        keys.MANAGED_BY: cluster,
    }


def v1_tags(machine: Machine, node_class: NodeClass, cluster: str) -> dict[str, str]:
    """LCH-23, LCH-56: the tags that say whose an instance or a template is. A machine without pool has an empty one."""
    return {
        keys.NODE_POOL: machine.pool,
        CLUSTER_NAME_TAG: cluster,
        keys.NODE_CLASS: node_class.name,
    }


def fleet_request(
    choices: list[Choice],
    capacity_type: str,
    templates: list[Template],
    subnets: Mapping[str, str],
    tags: dict[str, str],
    *,
    token: str,
    context: str,
) -> dict[str, Any]:
    """LCH-50..52. ``subnets``: zone -> subnet id."""
    configurations = [
        {
            "LaunchTemplateSpecification": {
                "LaunchTemplateId": template.id,
                "Version": str(template.version),
            },
            "Overrides": [
                _override(choice.type.name, offering, subnets[offering.zone])
                for choice in choices
                if choice.type.name in template.types
                for offering in choice.offerings
            ],
        }
        for template in templates
    ]
    strategy = (
        {"SpotOptions": {"AllocationStrategy": "price-capacity-optimized"}}
        if capacity_type == keys.SPOT
        else {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}}
    )
    return {
        "Type": "instant",
        "ClientToken": token,
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": 1,
            "DefaultTargetCapacityType": capacity_type,
        },
        "LaunchTemplateConfigs": [c for c in configurations if c["Overrides"]],
        "TagSpecifications": [
            tag_specification(kind, tags) for kind in ("instance", "volume", "fleet")
        ],
        **strategy,
        **({"Context": context} if context else {}),
    }


def _override(type_name: str, offering: Offering, subnet: str) -> dict[str, Any]:
    return {
        "InstanceType": type_name,
        "SubnetId": subnet,
        "AvailabilityZone": offering.zone,
        "Priority": offering.price_micro_usd_per_hour / 1_000_000,
    }
