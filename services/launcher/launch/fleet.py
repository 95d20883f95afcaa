"""The exact CreateFleet request, and the LaunchRecord that holds it and is stored before it is sent: pure (F1,
LCH-50..56).

``fleet_request`` says what machines want: launch templates by id and version, overrides in price order, tags. Machines
that want the same go into one call, to which ``addressed`` adds their number and the client token. The whole is sent
again unchanged after a crash. There is one record per call, named by the call's client token; it names every machine of
the call, sorted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from services.launcher.launch_template.variants import INTERRUPTIBLE_MARKET, Choice, Template
from shared.cloud.ec2.ownership import TOKEN_TAG
from shared.cloud.ec2.records import tag_specification, tags_from
from shared.concurrency.clock import parse_rfc3339, rfc3339
from shared.domain import labels as keys
from shared.domain.instance_types.reservations import CAPACITY_BLOCK
from shared.domain.instance_types.types import Offering
from shared.domain.machines.machine import Machine

MOST_TYPES = 60
"""Types in one request (LCH-46)."""
MOST_OVERRIDES = 300
"""EC2 takes no more capacity pools in one fleet."""
MOST_CONFIGURATIONS = 50
"""EC2 takes no more launch templates in one fleet."""
RESERVED_CAPACITY = "reserved-capacity"
Json = dict[str, Any]
READ_OF_OVERRIDES = ("InstanceType", "AvailabilityZone", "SubnetId")


def launch_token(attempts: Iterable[tuple[str, int]]) -> str:
    """EC2 client token (64 characters at most) and name of the LaunchRecord: one per attempt (F1).

    ``attempts``: uid and attempt of every machine of the call, in any order.
    """
    text = ",".join(f"{uid}|{attempt}" for uid, attempt in sorted(attempts))
    return f"lr-{hashlib.sha256(text.encode()).hexdigest()[:56]}"


def fleet_request(
    capacity_type: str,
    choices: Iterable[Choice],
    templates: Iterable[Template],
    subnets: Mapping[str, str],
    tags: Mapping[str, str],
    context: str,
) -> Json:
    """LCH-50..52: what to ask for, without number and token. ``subnets``: zone -> subnet id.

    Empty of configurations when no template starts any of the choices.
    """
    listed = tuple(choices)
    overrides = _cheapest(_pools(listed, templates, subnets))
    return {
        "Type": "instant",
        "TargetCapacitySpecification": {
            "DefaultTargetCapacityType": _target_type(capacity_type, listed)
        },
        "LaunchTemplateConfigs": _configurations(overrides),
        "TagSpecifications": [
            tag_specification(kind, dict(tags)) for kind in ("instance", "volume", "fleet")
        ],
        **_strategy(capacity_type, listed),
        **({"Context": context} if context else {}),
    }


def _target_type(capacity_type: str, choices: Sequence[Choice]) -> str:
    """EC2's word for it. Ordinary reservations are a kind of on-demand; all offerings of a call are of one kind."""
    if capacity_type == keys.SPOT:
        return keys.SPOT
    offering = choices[0].offerings[0] if choices else None
    if offering is not None and offering.reservation_type == CAPACITY_BLOCK:
        return CAPACITY_BLOCK
    return RESERVED_CAPACITY if offering is not None and offering.interruptible else keys.ON_DEMAND


def _strategy(capacity_type: str, choices: Sequence[Choice]) -> Json:
    """LCH-51. EC2 knows its own prices only: where an administrator corrected any, the order of ours decides.

    Of capacity blocks and interruptible reservations there is nothing to choose.
    """
    target = _target_type(capacity_type, choices)
    if target == CAPACITY_BLOCK:
        return {}
    if target == RESERVED_CAPACITY:
        return {"ReservedCapacityOptions": {"ReservationTypes": [INTERRUPTIBLE_MARKET]}}
    corrected = any(offering.overlaid for choice in choices for offering in choice.offerings)
    if capacity_type == keys.SPOT:
        name = "capacity-optimized-prioritized" if corrected else "price-capacity-optimized"
        return {"SpotOptions": {"AllocationStrategy": name}}
    name = "prioritized" if corrected else "lowest-price"
    return {"OnDemandOptions": {"AllocationStrategy": name}}


_Pool = tuple[Template, int, Json]
"""A template, a price, and the override that starts from it."""


def _pools(
    choices: Iterable[Choice], templates: Iterable[Template], subnets: Mapping[str, str]
) -> list[_Pool]:
    """One override per type and zone: EC2 refuses a request that names a pool twice (LCH-52)."""
    found: dict[tuple[str, str], _Pool] = {}
    listed = tuple(templates)
    for choice in choices:
        for offering in choice.offerings:
            template = _template_of(choice.type.name, offering, listed)
            if template is None or offering.zone not in subnets:
                continue
            override = _override(choice.type.name, offering, subnets[offering.zone], template)
            pool = (template, offering.price_micro_usd_per_hour + offering.order, override)
            found.setdefault((choice.type.name, offering.zone), pool)
    return list(found.values())


def _template_of(name: str, offering: Offering, templates: Sequence[Template]) -> Template | None:
    suiting = (
        template
        for template in templates
        if name in template.types and template.reservation_id == offering.reservation_id
    )
    return next(suiting, None)


def _override(type_name: str, offering: Offering, subnet: str, template: Template) -> Json:
    return {
        "InstanceType": type_name,
        "SubnetId": subnet,
        "AvailabilityZone": offering.zone,
        "Priority": (offering.price_micro_usd_per_hour + _past_shortages(offering)) / 1_000_000,
        **({"ImageId": template.image} if template.image else {}),
    }


def _past_shortages(offering: Offering) -> int:
    """What they add to the price; the order of reserved offerings says nothing of shortages."""
    return 0 if offering.capacity_type == keys.RESERVED else offering.order


def _cheapest(pools: list[_Pool]) -> list[_Pool]:
    """The cheapest ones, as many as EC2 takes in one fleet."""
    return sorted(pools, key=lambda pool: pool[1])[:MOST_OVERRIDES]


def _configurations(pools: Iterable[_Pool]) -> list[Json]:
    """Overrides by template, those with the cheapest first."""
    by_template: dict[tuple[str, int], list[Json]] = {}
    for template, _, override in pools:
        by_template.setdefault((template.id, template.version), []).append(override)
    return [
        {
            "LaunchTemplateSpecification": {
                "LaunchTemplateId": template_id,
                "Version": str(version),
            },
            "Overrides": overrides,
        }
        for (template_id, version), overrides in list(by_template.items())[:MOST_CONFIGURATIONS]
    ]


def digest(request: Json) -> str:
    """Machines whose requests have the same digest go into one call (LCH-54)."""
    return hashlib.sha256(orjson.dumps(request, option=orjson.OPT_SORT_KEYS)).hexdigest()


def addressed(request: Json, machines: Sequence[Machine], token: str) -> Json:
    """The request for these machines: one instance each, the token also as a tag to find them by (F1).

    Only an instance that is asked for alone carries its machine's name: a call has one set of tags.
    """
    ours = {TOKEN_TAG: token}
    if len(machines) == 1:
        ours[keys.MACHINE_TAG] = machines[0].name
    target = {**request["TargetCapacitySpecification"], "TotalTargetCapacity": len(machines)}
    specifications = [
        tag_specification(one["ResourceType"], {**tags_from(one["Tags"]), **ours})
        for one in request["TagSpecifications"]
    ]
    return {
        **request,
        "ClientToken": token,
        "TargetCapacitySpecification": target,
        "TagSpecifications": specifications,
    }


def gang_of(machine: Machine) -> str:
    """The gangs for which alone it was bought (SCH-116); empty for none."""
    return machine.annotations.get(keys.GANG, "")


def all_or_none(request: Json, machines: Sequence[Machine]) -> Json:
    """The request for machines of one gang: EC2 starts all of them or none (SCH-117).

    EC2 takes a minimum only within one zone or for one type. Where a request allows several of both, a mixture may
    serve a gang that neither could, so it stays as it is; the scheduler then gives back what is served in part.
    """
    options = next((name for name in ("SpotOptions", "OnDemandOptions") if name in request), "")
    whole = _one_of(overrides_of(request))
    if not options or not whole or len(machines) < 2 or len(_gangs(machines)) != 1:
        return request
    return {
        **request,
        options: {**request[options], whole: True, "MinTargetCapacity": len(machines)},
    }


def _gangs(machines: Iterable[Machine]) -> set[str]:
    """Empty unless all are of gangs."""
    named = [gang_of(machine) for machine in machines]
    return {gang for text in named for gang in text.split(",")} if all(named) else set()


def _one_of(overrides: Sequence[Json]) -> str:
    """What all overrides have in common, in EC2's word; empty for nothing."""
    if len({one["AvailabilityZone"] for one in overrides}) == 1:
        return "SingleAvailabilityZone"
    return "SingleInstanceType" if len({one["InstanceType"] for one in overrides}) == 1 else ""


def overrides_of(request: Mapping[str, Any]) -> list[Json]:
    found = (config.get("Overrides") or () for config in request.get("LaunchTemplateConfigs") or ())
    return [override for overrides in found for override in overrides]


def capacity_type_of(request: Mapping[str, Any]) -> str:
    """The capacity type that a stored request asks for, in EC2's word."""
    target = request.get("TargetCapacitySpecification") or {}
    return str(target.get("DefaultTargetCapacityType") or keys.ON_DEMAND)


class Subject(msgspec.Struct, frozen=True):
    """One machine that a call is for."""

    key: str
    uid: str


class LaunchRecord(msgspec.Struct, frozen=True):
    """One intended call. ``request`` holds token, number and tags as well."""

    token: str
    subjects: tuple[Subject, ...]
    request: Json
    created_at: float
    images: dict[str, str] = {}
    """Launch template id -> image that it starts, which EC2 will not say in its answer (LCH-58)."""
    reservations: dict[str, str] = {}
    """Launch template id -> capacity reservation that it starts in."""
    placement_group: str = ""
    """Id of the placement group that it starts instances in; empty: none."""
    attempt: int = 0
    epoch: int = 0
    revision: int = 0
    """The API server's, in the order of creation; 0 for one that is not stored, or whose server counts otherwise."""

    @property
    def capacity_type(self) -> str:
        """What the call asks for. EC2 takes reserved capacity for a kind of on-demand."""
        return keys.RESERVED if self.reservations else capacity_type_of(self.request)

    @property
    def uids(self) -> tuple[str, ...]:
        return tuple(subject.uid for subject in self.subjects)


def subjects_of(machines: Sequence[Machine]) -> tuple[Subject, ...]:
    """The machines in the order in which instances are assigned to them."""
    ordered = sorted(machines, key=lambda machine: (machine.name, machine.kind))
    return tuple(Subject(machine.key, machine.uid) for machine in ordered)


def read_record(raw: Mapping[str, Any]) -> LaunchRecord:
    """A stored record; fields that an older build did not write are empty.

    Raises KeyError, TypeError, ValueError or AttributeError for one of another form.
    """
    spec = raw["spec"]
    return LaunchRecord(
        token=str(spec["clientToken"]),
        subjects=tuple(
            Subject(f"{one.get('kind') or 'Machine'}/{one['name']}", str(one["uid"]))
            for one in spec["machines"]
        ),
        request=_checked(spec["request"]),
        created_at=parse_rfc3339(str(spec["createdAt"])),
        images=spec.get("images") or {},
        reservations=spec.get("reservations") or {},
        placement_group=str(spec.get("placementGroup") or ""),
        attempt=int(spec.get("attempt") or 0),
        epoch=int(spec.get("epoch") or 0),
        revision=revision_of(raw),
    )


def _checked(request: Json) -> Json:
    """Raises KeyError, TypeError or AttributeError for one that nobody could go on with."""
    capacity_type_of(request)
    for override in overrides_of(request):
        if not all(isinstance(override[field], str) for field in READ_OF_OVERRIDES):
            raise TypeError("an override without type, zone or subnet")
    return request


def revision_of(raw: Mapping[str, Any]) -> int:
    """The resource version as a number: its order is that of creation, for a record is never changed."""
    text = str((raw.get("metadata") or {}).get("resourceVersion") or "")
    return int(text) if text.isascii() and text.isdigit() else 0


def record_body(record: LaunchRecord) -> Json:
    reserved = {"reservations": record.reservations} if record.reservations else {}
    grouped = {"placementGroup": record.placement_group} if record.placement_group else {}
    return {
        "metadata": {"name": record.token},
        "spec": {
            "machines": [_stored(subject) for subject in record.subjects],
            "clientToken": record.token,
            "attempt": record.attempt,
            "request": record.request,
            "images": record.images,
            "epoch": record.epoch,
            "createdAt": rfc3339(record.created_at),
            **reserved,
            **grouped,
        },
    }


def _stored(subject: Subject) -> Json:
    kind, _, name = subject.key.rpartition("/")
    return {"kind": kind, "name": name, "uid": subject.uid}


def attempt_of(machine: Machine) -> int:
    """Definite failures to launch it so far."""
    text = machine.annotations.get(keys.ATTEMPT_ANNOTATION) or ""
    return int(text) if text.isascii() and text.isdigit() else 0


def uids_in(raw: Mapping[str, Any]) -> set[str]:
    """Uids of the machines that a stored record names, also one that cannot be read."""
    spec = raw.get("spec")
    listed = spec.get("machines") if isinstance(spec, Mapping) else None
    named = listed if isinstance(listed, list) else []
    return {str(one["uid"]) for one in named if isinstance(one, Mapping) and "uid" in one}
