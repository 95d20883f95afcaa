"""Which instance is whose: pure (F1, F19)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from services.launcher.launch.record import LaunchRecord, Subject
from shared.cloud.records import FleetInstance, Instance
from shared.domain.machines import Machine
from shared.domain.nodes import provider_instance_id


def assign(
    record: LaunchRecord, instances: Sequence[FleetInstance], owned: Mapping[str, str]
) -> tuple[list[tuple[Subject, FleetInstance]], tuple[Subject, ...]]:
    """Instances of an answer by id to the record's machines in order, and the machines that are left without.

    Every replay deals alike, whatever became of the machines meanwhile. Only what was adopted before, when EC2 showed
    some of the instances and not the others, stays where it is: ``owned`` is the instance id by uid of the record's
    machines. Instances beyond the machines are nobody's: the sweep ends them (LCH-54).
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


def assign_found(
    waiting: Sequence[Machine], instances: Iterable[Instance], owned: Iterable[str]
) -> list[tuple[Machine, Instance]]:
    """Instances found by their tag, which no machine has yet, to the record's machines that still wait for one.

    ``owned``: provider ids of all machines.
    """
    taken = {provider_instance_id(one) for one in owned}
    free = sorted((i for i in instances if i.id not in taken), key=lambda one: one.id)
    ordered = sorted(waiting, key=lambda machine: (machine.name, machine.kind))
    return list(zip(ordered, free, strict=False))
