"""The record of a disruption command in the annotations of its machines. Pure.

An annotation that a person edited, or copied from another machine, counts as absent.
"""

from __future__ import annotations

import msgspec

from shared.domain import labels as keys
from shared.domain.machines.machine import Machine


class CommandRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of the annotation."""

    id: str
    method: str
    reason: str
    candidates: tuple[str, ...]
    """Keys of machines."""
    replacements: tuple[str, ...] = ()
    begun_at: float = 0.0
    """Seconds since the epoch."""
    created: bool = False
    """Whether all replacements were created; a missing replacement has then been deleted."""
    text: str = ""


def written(record: CommandRecord) -> str:
    """``record`` as the value of the annotation."""
    return msgspec.json.encode(record).decode()


def read(text: str) -> CommandRecord | None:
    """The inverse of ``written``; None for an invalid value."""
    try:
        return msgspec.json.decode(text, type=CommandRecord)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


def holder(machine: Machine) -> CommandRecord | None:
    """The command that holds this machine, by its own annotation; a record copied from another machine does not."""
    record = read(machine.annotations.get(keys.COMMAND_ANNOTATION, ""))
    return record if record is not None and machine.key in record.candidates else None
