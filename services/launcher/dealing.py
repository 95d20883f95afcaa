"""Which instance is whose: pure (F1, F19)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from services.launcher.records import LaunchRecord, Subject
from shared.cloud.records import FleetInstance, Instance
from shared.domain.machines import Machine
from shared.domain.nodes import provider_instance_id


def dealt(
    record: LaunchRecord, instances: Sequence[FleetInstance]
) -> tuple[list[tuple[Subject, FleetInstance]], tuple[Subject, ...]]:
    """Instances of an answer by id to the record's machines in order, and the machines that are left without.

    Every replay deals alike, whatever became of the machines meanwhile. Instances beyond the machines are nobody's:
    the sweep ends them (LCH-54).
    """
    ordered = sorted(instances, key=lambda instance: instance.id)
    pairs = list(zip(record.subjects, ordered, strict=False))
    return pairs, record.subjects[len(pairs) :]


def adopted(
    waiting: Sequence[Machine], instances: Iterable[Instance], owned: Iterable[str]
) -> list[tuple[Machine, Instance]]:
    """Instances found by their tag, which no machine has yet, to the record's machines that still wait for one.

    ``owned``: provider ids of all machines.
    """
    taken = {provider_instance_id(one) for one in owned}
    free = sorted((i for i in instances if i.id not in taken), key=lambda one: one.id)
    ordered = sorted(waiting, key=lambda machine: (machine.name, machine.kind))
    return list(zip(ordered, free, strict=False))
