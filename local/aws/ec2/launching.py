"""Turns a resolved launch specification into pending instances: checks, then address, volumes, tags and instance.

A specification that EC2 would refuse raises ``RequestRefused`` with EC2's error code; CreateFleet lists it under
Errors, RunInstances answers with it. Nothing is created when a check fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from local.aws.catalogue.types import Catalogue
from local.aws.ec2.addresses import Addresses
from local.aws.ec2.instances import Instance, Inventory
from local.aws.ec2.refusal import RequestRefused
from local.aws.http.faults import Faults
from local.aws.moto.state import attach_volume, find_profile, find_subnet, new_id
from shared.concurrency.clock import Clock

KMS_ACTION = "KMSDecrypt"
"""The pseudo-action whose fault makes a launched instance terminate at once."""


@dataclass(frozen=True, slots=True)
class LaunchSpecification:
    """All parameters of one launch, after the launch template and the overrides are merged."""

    region: str
    image_id: str
    instance_type: str
    subnet: Any
    zone: str
    lifecycle: str
    security_group_ids: tuple[str, ...] = ()
    instance_profile: Mapping[str, str] = field(default_factory=dict)
    user_data: str | None = None
    instance_tags: Mapping[str, str] = field(default_factory=dict)
    volume_tags: Mapping[str, str] = field(default_factory=dict)
    block_devices: tuple[Mapping[str, Any], ...] = ()
    metadata_options: Mapping[str, Any] = field(default_factory=dict)
    key_name: str | None = None
    ebs_optimized: bool = False
    client_token: str = ""
    reservation_id: str = ""
    """The capacity reservation that the launch names; empty for none."""
    placement_group: tuple[str, str] = ("", "")
    """Name and id of the group; empty for none."""
    tenancy: str = "default"
    monitoring: bool = False
    """Whether detailed monitoring is asked for."""


@dataclass(slots=True)
class Launcher:
    """Creates instances in moto's network and in the inventory."""

    catalogue: Catalogue
    inventory: Inventory
    faults: Faults
    clock: Clock
    open_reservation: Callable[[str, str, float], str]
    """The reservation that (type, zone) uses automatically now."""
    addresses: Addresses = field(default_factory=Addresses)
    _sequence: Iterator[int] = field(default_factory=lambda: count(1))

    def check(self, backend: Any, spec: LaunchSpecification) -> None:
        """Raises RequestRefused for an unknown type, image, group or profile, or a pool that is not offered."""
        if spec.instance_type not in self.catalogue.types:
            raise RequestRefused(
                "InvalidParameterValue", f"Invalid instance type: {spec.instance_type}"
            )
        if not self.catalogue.offers(spec.region, spec.instance_type, spec.zone):
            raise RequestRefused(
                "UnfulfillableCapacity" if spec.lifecycle == "spot" else "Unsupported",
                f"Your requested instance type ({spec.instance_type}) is not supported in your "
                f"requested Availability Zone ({spec.zone}).",
            )
        image = backend.amis.get(spec.image_id)
        if image is None:
            raise RequestRefused(
                "InvalidAMIID.NotFound", f"The image id '[{spec.image_id}]' does not exist"
            )
        self._check_architecture(spec, image)
        self._profile(spec)
        self._security_groups(backend, spec)

    def _check_architecture(self, spec: LaunchSpecification, image: Any) -> None:
        facts = self.catalogue.types[spec.instance_type]
        if image.architecture and image.architecture != facts.architecture:
            raise RequestRefused(
                "InvalidParameterValue",
                f"The architecture '{facts.architecture}' of the specified instance type does not "
                f"match the architecture '{image.architecture}' of the specified AMI.",
            )

    def launch(self, backend: Any, spec: LaunchSpecification, number: int) -> list[Instance]:
        """Create ``number`` pending instances in one reservation. Raises RequestRefused."""
        self.check(backend, spec)
        free = spec.subnet.available_ip_address_count
        if free < number:
            raise RequestRefused(
                "InsufficientFreeAddressesInSubnet",
                f"There are not enough free addresses in subnet '{spec.subnet.id}' to satisfy "
                "the requested number of instances.",
            )
        reservation = new_id("r-")
        return [self._create(backend, spec, reservation) for _ in range(number)]

    def clear(self) -> None:
        """Restart the launch counter and the addresses."""
        self._sequence = count(1)
        self.addresses.clear()

    def _create(self, backend: Any, spec: LaunchSpecification, reservation: str) -> Instance:
        instance_id = new_id("i-")
        backend.create_tags([instance_id], dict(spec.instance_tags))
        instance = Instance(
            instance_id=instance_id,
            sequence=next(self._sequence),
            reservation_id=reservation,
            owner_id=backend.account_id,
            region=spec.region,
            facts=self.catalogue.types[spec.instance_type],
            zone=spec.zone,
            zone_id=self.catalogue.zone_ids.get(spec.zone, ""),
            subnet_id=spec.subnet.id,
            vpc_id=spec.subnet.vpc_id,
            private_ip="",
            image_id=spec.image_id,
            image_name=backend.amis[spec.image_id].name or "",
            lifecycle=spec.lifecycle,
            security_groups=self._security_groups(backend, spec),
            tags=backend.tags[instance_id],
            launched_at=self.clock.now(),
            launched_monotonic=self.clock.monotonic(),
            instance_profile=self._profile(spec),
            user_data=spec.user_data,
            client_token=spec.client_token,
            key_name=spec.key_name,
            ebs_optimized=spec.ebs_optimized,
            placement_group=spec.placement_group,
            tenancy=spec.tenancy,
            monitoring=spec.monitoring,
            capacity_reservation_id=spec.reservation_id or self._automatic_reservation(spec),
            metadata_options={key: str(value) for key, value in spec.metadata_options.items()},
        )
        instance.private_ip = self.addresses.take(spec.subnet, instance) or ""
        _create_volumes(backend, spec, instance)
        failing = self.faults.take(KMS_ACTION) is not None
        self.inventory.add(instance, fails_at_once=failing)
        return instance

    def _automatic_reservation(self, spec: LaunchSpecification) -> str:
        if spec.lifecycle == "spot":
            return ""
        return self.open_reservation(spec.instance_type, spec.zone, self.clock.now())

    def _profile(self, spec: LaunchSpecification) -> tuple[str, str] | None:
        reference = spec.instance_profile
        if not reference:
            return None
        profile = find_profile(reference)
        if profile is not None:
            return str(profile.arn), str(profile.id)
        name = reference.get("Name") or reference.get("Arn")
        raise RequestRefused(
            "InvalidParameterValue",
            f"Value ({name}) for parameter iamInstanceProfile.name is invalid. "
            "Invalid IAM Instance Profile name",
        )

    def _security_groups(
        self, backend: Any, spec: LaunchSpecification
    ) -> tuple[tuple[str, str], ...]:
        groups = backend.groups.get(spec.subnet.vpc_id, {})
        group_ids = spec.security_group_ids or tuple(
            group.id for group in groups.values() if group.name == "default"
        )
        for group_id in group_ids:
            if group_id not in groups:
                raise RequestRefused(
                    "InvalidGroup.NotFound", f"The security group '{group_id}' does not exist"
                )
        return tuple((group_id, str(groups[group_id].name)) for group_id in group_ids)


def _create_volumes(backend: Any, spec: LaunchSpecification, instance: Instance) -> None:
    """One volume per mapped device, and the image's root volume where none of them replaces it."""
    image = backend.amis[spec.image_id]
    (root,) = image.block_device_mappings
    mapped = {str(device["DeviceName"]): device.get("Ebs") or {} for device in spec.block_devices}
    devices = mapped if root["DeviceName"] in mapped else {root["DeviceName"]: {}, **mapped}
    created = []
    for name, ebs in devices.items():
        volume = backend.create_volume(
            size=ebs.get("VolumeSize") or root["Ebs"]["VolumeSize"],
            zone_name=spec.zone,
            encrypted=bool(ebs.get("Encrypted")),
            kms_key_id=ebs.get("KmsKeyId"),
            volume_type=ebs.get("VolumeType") or "gp3",
            iops=ebs.get("Iops"),
            throughput=ebs.get("Throughput"),
        )
        backend.create_tags([volume.id], dict(spec.volume_tags))
        attach_volume(volume, instance.instance_id, name)
        created.append((name, volume))
    instance.volumes = tuple((name, str(volume.id)) for name, volume in created)
    instance.largest_volume_gib = max(int(volume.size) for _, volume in created)


def release(backend: Any, instance: Instance) -> None:
    """Free the address and the volumes of a terminated instance."""
    subnet = find_subnet(backend, instance.subnet_id)
    if subnet is not None:
        subnet.del_subnet_ip(instance.private_ip)
    for _, volume_id in instance.volumes:
        backend.volumes.pop(volume_id, None)
        backend.tags.pop(volume_id, None)
