"""Which machine of a call gets which of its instances, and what its object then says: pure (F1, LCH-58, LCH-59)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from services.launcher.launch.fleet import LaunchRecord, Subject
from shared.cloud.ec2.ownership import STOPPED_STATES
from shared.cloud.ec2.records import FleetInstance, Instance
from shared.domain import labels as keys
from shared.domain.instance_types.reservations import ID_LABEL
from shared.domain.instance_types.types import InstanceType
from shared.domain.machines.machine import Machine
from shared.domain.nodes import provider_instance_id
from shared.domain.resources import format_resources

LIVE_STATES = frozenset({"pending", "running"}) | STOPPED_STATES


class Since(NamedTuple):
    """Uids of machines, by what became of their instance since EC2's first answer."""

    ended: set[str]
    unsure: set[str]
    """Nobody knows: EC2 does not list it."""
    stopped: set[str]


def assign(
    record: LaunchRecord, instances: Sequence[FleetInstance], owned: Mapping[str, str]
) -> tuple[list[tuple[Subject, FleetInstance]], tuple[Subject, ...]]:
    """Instances of an answer, sorted by id, to the record's machines in order; and the machines that get none.

    A repeat of the call assigns alike, whatever became of the machines meanwhile. Only an instance that was assigned
    before, when EC2 listed some of the instances and not the others, keeps its machine: ``owned`` is the instance id
    by uid of the record's machines. Instances beyond the machines stay unassigned: the sweep ends them (LCH-54).
    """
    ordered = sorted(instances, key=lambda instance: instance.id)
    holder = {instance: uid for uid, instance in owned.items()}
    pairs = [
        (subject, one)
        for subject, one in zip(record.subjects, ordered, strict=False)
        if holder.get(one.id, subject.uid) == subject.uid
        and owned.get(subject.uid, one.id) == one.id
    ]
    served = {subject.uid for subject, _ in pairs} | owned.keys()
    taken = {one.id for _, one in pairs} | holder.keys()
    without = [subject for subject in record.subjects if subject.uid not in served]
    free = [one for one in ordered if one.id not in taken]
    pairs += zip(without, free, strict=False)
    return pairs, tuple(without[len(free) :])


def since_answer(
    pairs: Sequence[tuple[Subject, FleetInstance]], states: Mapping[str, str], *, lists_ended: bool
) -> Since:
    """EC2 answers a repeated call as it did the first time, also with instances that have ended since.

    ``states``: by instance id, as EC2 lists them; ``lists_ended``: what it does not list is too young to have ended and
    gone from its list.
    """
    known = {subject.uid: states[one.id] for subject, one in pairs if one.id in states}
    unknown = {subject.uid for subject, _ in pairs} - known.keys()
    return Since(
        ended={uid for uid, state in known.items() if state not in LIVE_STATES},
        unsure=set() if lists_ended else unknown,
        stopped={uid for uid, state in known.items() if state in STOPPED_STATES},
    )


def assign_found(
    waiting: Sequence[Machine], instances: Iterable[Instance], owned: Iterable[str]
) -> list[tuple[Machine, Instance]]:
    """Instances that EC2 lists with the call's tag and no machine has, to the machines that still wait for one.

    ``owned``: provider ids of all machines.
    """
    taken = {provider_instance_id(one) for one in owned}
    free = sorted((i for i in instances if i.id not in taken), key=lambda one: one.id)
    ordered = sorted(waiting, key=lambda machine: (machine.name, machine.kind))
    return list(zip(ordered, free, strict=False))


class LaunchedInstance(msgspec.Struct, frozen=True):
    """One instance of a call, as EC2 shows it, with what the launcher itself knows of its launch."""

    id: str
    instance_type: str
    zone: str
    capacity_type: str
    image: str = ""
    """Empty when nobody knows it."""
    reservation_id: str = ""
    token: str = ""
    """Client token of the call that started it."""
    labels: dict[str, str] = {}
    """Further labels of the place where it runs (IT-44); v1 only."""
    profile: str = ""
    """Instance profile of its class; v1 only."""
    authority: str = ""
    """Digest of the certificate authority in its boot data; empty for an unknown one and for v1alpha5."""
    hostname: str = ""
    """Its private DNS name, empty while EC2 does not show the instance (F20)."""

    @property
    def provider_id(self) -> str:
        """As the cloud controller writes it on the node (LCH-58)."""
        return f"aws:///{self.zone}/{self.id}"


def from_answer(record: LaunchRecord, one: FleetInstance, hostname: str) -> LaunchedInstance:
    """An instance in the answer to the record's call. The answer names a template, the record its image (LCH-58)."""
    reservation = record.reservations.get(one.launch_template_id, "")
    return LaunchedInstance(
        id=one.id,
        instance_type=one.instance_type,
        zone=one.zone or "",
        capacity_type=keys.RESERVED if reservation else one.capacity_type,
        image=record.images.get(one.launch_template_id, ""),
        reservation_id=reservation,
        token=record.token,
        hostname=hostname,
    )


def from_listing(record: LaunchRecord, one: Instance) -> LaunchedInstance:
    """An instance that EC2 lists with the tag of the record's call."""
    reservation = one.capacity_reservation_id if record.reservations else ""
    return LaunchedInstance(
        id=one.id,
        instance_type=one.instance_type,
        zone=one.zone,
        capacity_type=keys.RESERVED if reservation else one.capacity_type,
        image=one.image_id,
        reservation_id=reservation,
        token=record.token,
        hostname=one.private_dns_name,
    )


def metadata_of(instance: LaunchedInstance, kind: InstanceType | None) -> dict[str, Any]:
    """Labels and annotations of the machine. ``kind``: None for a type that the catalogue does not have."""
    decided = {
        keys.INSTANCE_TYPE: instance.instance_type,
        keys.ZONE: instance.zone,
        keys.CAPACITY_TYPE: instance.capacity_type,
    }
    if instance.image:
        decided[keys.AWS_PREFIX + "instance-ami-id"] = instance.image
    if instance.reservation_id:
        decided[ID_LABEL] = instance.reservation_id
    price = price_of(kind, instance.zone, instance.capacity_type)
    annotations = {
        keys.PRICE_ANNOTATION: None if price is None else str(price),
        keys.LAUNCH_TOKEN_ANNOTATION: instance.token or None,
        keys.INSTANCE_PROFILE_ANNOTATION: instance.profile or None,
        keys.AUTHORITY_ANNOTATION: instance.authority or None,
    }
    return {
        "labels": {**instance_labels(kind), **instance.labels, **decided},
        "annotations": {key: text for key, text in annotations.items() if text is not None},
    }


def status_of(
    machine: Machine, instance: LaunchedInstance, kind: InstanceType | None
) -> dict[str, Any]:
    """Fields of the machine's status beside its conditions."""
    status: dict[str, Any] = {"providerID": instance.provider_id}
    if machine.api.detailed_status:
        status["imageID"] = instance.image
    if kind is not None:
        status["capacity"] = format_resources(kind.capacity)
        status["allocatable"] = format_resources(kind.allocatable())
    return status


def instance_labels(kind: InstanceType | None) -> dict[str, str]:
    """The type's labels with one value (LCH-59)."""
    if kind is None:
        return {}
    return {key: values[0] for key, values in kind.labels.items() if len(values) == 1}


def price_of(kind: InstanceType | None, zone: str, capacity_type: str) -> int | None:
    """Micro-USD an hour of one offering, None when unknown. A reservation is paid for already (IT-07)."""
    if capacity_type == keys.RESERVED:
        return 0
    for offering in kind.offerings if kind else ():
        if (offering.zone, offering.capacity_type) == (zone, capacity_type):
            return offering.price_micro_usd_per_hour
    return None
