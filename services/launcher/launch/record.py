"""A LaunchRecord says what is about to be asked of EC2, and is stored before it is asked: pure (F1).

One record per call, named by the call's client token. It names every machine of the call, sorted, and holds the exact
request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from services.launcher.launch.fleet import Json, capacity_type_of, overrides_of
from shared.concurrency.clock import parse_rfc3339, rfc3339
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine

READ_OF_OVERRIDES = ("InstanceType", "AvailabilityZone", "SubnetId")


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
