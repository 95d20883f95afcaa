"""The record of a disruption command as it stands on its machines: pure.

What may go wrong: an annotation that a person edited, or copied from another machine; it counts as none.
"""

from __future__ import annotations

import msgspec

from shared.domain import labels as keys
from shared.domain.machines.machine import Machine


class CommandRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What stands in the annotation."""

    id: str
    method: str
    reason: str
    candidates: tuple[str, ...]
    """Keys of machines."""
    replacements: tuple[str, ...] = ()
    begun_at: float = 0.0
    """Seconds since the epoch."""
    created: bool = False
    """All replacements exist: from now on a missing one was lost."""
    text: str = ""


def written(record: CommandRecord) -> str:
    """For the annotation."""
    return msgspec.json.encode(record).decode()


def read(text: str) -> CommandRecord | None:
    """The inverse; None for what no scheduler wrote."""
    try:
        return msgspec.json.decode(text, type=CommandRecord)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


def holder(machine: Machine) -> CommandRecord | None:
    """The command that holds this machine, by its own annotation; a record copied from another machine does not."""
    record = read(machine.annotations.get(keys.COMMAND_ANNOTATION, ""))
    return record if record is not None and machine.key in record.candidates else None
