"""Is a machine still what its pool and its node class say? Pure (DRF-02..05, DRF-08).

A check has three answers: it drifted, it did not, or that is not known. A class that cannot be looked up, a list
without the machine's instance, an image for every type but this one: none of them is drift (F23).

What may go wrong: hashes of another controller or of an older version of ours compare with nothing (NP-20). Of such a
machine the hashes are not known, until the watcher has given it today's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from services.launcher.resolved_class import Resolved
from shared.api.hashes import class_hash_annotations, pool_hash_annotations
from shared.cloud.ec2.records import Instance
from shared.domain import labels as keys
from shared.domain.instance_types.types import InstanceType
from shared.domain.machines.machine import LAUNCHED, Machine
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.pools.nodepools import NodeClass, NodePool
from shared.domain.requirements import Requirement, Requirements

TYPE_AFTER_SECONDS = 3600.0
"""How old a machine is before its instance type is looked for (DRF-02)."""
_DIGESTS = frozenset({keys.POOL_HASH, keys.PROVISIONER_HASH, keys.CLASS_HASH, keys.NODE_TEMPLATE_HASH})  # fmt: skip


class Facts(msgspec.Struct, frozen=True):
    """What is known beside the machine itself. None and empty: not known."""

    pool: NodePool | None = None
    node_class: NodeClass | None = None
    """As it is written now."""
    resolved: Resolved | None = None
    """What it selects now."""
    instance: Instance | None = None
    types: Mapping[str, InstanceType] = {}
    """The catalogue by name."""
    type_seen: bool = False
    """The machine's type was there a moment ago: it is not searched again."""
    authority: str = ""
    """Digest of the cluster's certificate authority."""


_Check = Callable[[Machine, Facts, float], bool | None]


def is_judged(machine: Machine) -> bool:
    """Has it an instance, and a pool to be compared with?"""
    return machine.has(LAUNCHED) and bool(machine.pool_key) and not machine.terminating


def drift_of(machine: Machine, facts: Facts, *, now: float) -> str | None:
    """Why this machine drifted: the first reason in the order of DRF-02 and DRF-03.

    Empty when it did not; None when none is known, but not all could be looked at. ``now``: seconds since the epoch.
    """
    complete = True
    for reason, check in _CHECKS[machine.generation_api]:
        verdict = check(machine, facts, now)
        if verdict:
            return reason
        complete = complete and verdict is not None
    return "" if complete else None


def _pool_hash(machine: Machine, facts: Facts, _now: float) -> bool | None:
    pool = facts.pool
    if pool is None:
        return None
    return _outdated(machine, pool_hash_annotations(pool.kind, pool.hash))


def _class_hash(machine: Machine, facts: Facts, _now: float) -> bool | None:
    found = facts.node_class
    if found is None:
        return None
    return _outdated(machine, class_hash_annotations(found.kind, found.hash))


def _authority(machine: Machine, facts: Facts, _now: float) -> bool | None:
    """A machine that says nothing is older than this build: it is not taken for drifted (NP-20) (EC-22)."""
    held = machine.annotations.get(keys.AUTHORITY_ANNOTATION)
    return bool(held and facts.authority and held != facts.authority)


def _outdated(machine: Machine, desired: Mapping[str, str]) -> bool | None:
    """Has it another hash, made in the same way?"""
    held = machine.annotations
    differing = {key for key, value in desired.items() if held.get(key) != value}
    if differing - _DIGESTS or not all(key in held for key in differing):
        return None
    return bool(differing)


def _requirements(machine: Machine, facts: Facts, _now: float) -> bool | None:
    if facts.pool is None:
        return None
    kind = facts.types.get(machine.instance_type)
    desired = Requirements.of(facts.pool.requirements)
    return not _is(machine, kind).compatible(desired)


def _is(machine: Machine, kind: InstanceType | None) -> Requirements:
    """What the machine is: its labels; where it has none what it asked for, or else what its type may be."""
    is_labelled = Requirements.of((), machine.labels)
    asked = Requirements(
        r for r in Requirements.of(machine.requirements) if r.key not in is_labelled
    )
    known = is_labelled.intersect(asked)
    of_type = (
        Requirement(key, False, frozenset(values))
        for key, values in (kind.labels if kind else {}).items()
        if key not in known
    )
    return known.add(*of_type)


def _instance_type(machine: Machine, facts: Facts, now: float) -> bool | None:
    if facts.type_seen or now - machine.created_at <= TYPE_AFTER_SECONDS:
        return False
    if not facts.types or not machine.instance_type:
        return None
    return machine.instance_type not in facts.types


def _image(machine: Machine, facts: Facts, _now: float) -> bool | None:
    """A template that the user keeps says everything by itself (T-07)."""
    if facts.node_class is not None and facts.node_class.launch_template:
        return False
    kind = facts.types.get(machine.instance_type)
    if facts.resolved is None or facts.instance is None or kind is None:
        return None
    current = {item.image.id for item in facts.resolved.images.items if item.suits(kind)}
    return _is_outside(facts.instance.image_id, current)


def _security_groups(_machine: Machine, facts: Facts, _now: float) -> bool | None:
    if facts.node_class is not None and facts.node_class.launch_template:
        return False
    if facts.resolved is None or facts.instance is None:
        return None
    desired = {group.id for group in facts.resolved.security_groups}
    held = set(facts.instance.security_group_ids)
    return desired != held if desired and held else None


def _subnet(_machine: Machine, facts: Facts, _now: float) -> bool | None:
    if facts.resolved is None or facts.instance is None:
        return None
    return _is_outside(facts.instance.subnet_id, {one.id for one in facts.resolved.subnets})


def _is_outside(value: str, allowed: set[str]) -> bool | None:
    """None when either is not known."""
    return value not in allowed if value and allowed else None


def _reservation(machine: Machine, facts: Facts, _now: float) -> bool | None:
    """What left its reservation becomes on-demand (LCH-84): that is no drift."""
    if machine.capacity_type != keys.RESERVED:
        return False
    if facts.resolved is None or facts.instance is None:
        return None
    held = facts.instance.capacity_reservation_id
    selected = {one.id for one in facts.resolved.reservations}
    if held and not facts.resolved.node_class.reservation_terms:
        return True
    return _is_outside(held, selected)


def _placement_group(_machine: Machine, facts: Facts, _now: float) -> bool | None:
    if facts.node_class is None or facts.instance is None:
        return None
    selector, instance = facts.node_class.placement_group, facts.instance
    held = {"name": instance.placement_group, "id": instance.placement_group_id}
    if not selector or not any(held.values()):
        return bool(selector) or any(held.values())
    # EC2 may tell a group's name only.
    return any(held[key] != value for key, value in selector.items() if held[key])


_CHECKS: dict[str, tuple[tuple[str, _Check], ...]] = {
    V1ALPHA5: (
        ("ProvisionerDrifted", _pool_hash),
        ("RequirementsDrifted", _requirements),
        ("NodeTemplateDrift", _class_hash),
        ("AMIDrift", _image),
        ("SecurityGroupDrift", _security_groups),
        ("SubnetDrift", _subnet),
    ),
    V1: (
        ("NodePoolDrifted", _pool_hash),
        ("RequirementsDrifted", _requirements),
        ("InstanceTypeNotFound", _instance_type),
        ("NodeClassDrift", _class_hash),
        ("NodeClassDrift", _authority),
        ("AMIDrift", _image),
        ("SecurityGroupDrift", _security_groups),
        ("SubnetDrift", _subnet),
        ("CapacityReservationDrift", _reservation),
        ("PlacementGroupDrift", _placement_group),
    ),
}
"""By generation: its reasons, in the order in which they are reported (DRF-02, DRF-03, DRF-08)."""
