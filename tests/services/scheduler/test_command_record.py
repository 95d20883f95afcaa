"""How far a command has come follows from its record and its machines (EXE-04..06, EXE-08)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from services.scheduler.command_record import (
    STARTING_SECONDS,
    CommandRecord,
    patience,
    read,
    running,
    step,
    written,
)
from shared.domain import labels as keys
from shared.domain.machines import INITIALIZED, Condition, Machine
from tests.support.builders import make_machine

NOW = 5000.0
RECORD = CommandRecord(
    "c1", "drift", "Drifted", ("Machine/old",), ("Machine/new",), NOW - 1, created=True
)
OLD = make_machine("old", annotations={keys.COMMAND_ANNOTATION: written(RECORD)})
READY = {INITIALIZED: Condition("True")}


def machines(*found: Machine) -> dict[str, Machine]:
    return {machine.key: machine for machine in found}


def next_of(record: CommandRecord, *found: Machine, **changes: Any) -> str:
    return step(record, machines(*found), **{"now": NOW, "disrupted": 1, **changes}).next


def test_a_command_waits_until_every_replacement_is_initialised() -> None:
    """EXE-04."""
    assert next_of(RECORD, OLD, make_machine("new")) == "wait"
    assert next_of(RECORD, OLD, make_machine("new", conditions=READY)) == "delete"


def test_without_replacements_there_is_nothing_to_wait_for() -> None:
    assert next_of(replace(RECORD, replacements=()), OLD) == "delete"


def test_a_lost_replacement_ends_the_command() -> None:
    """EXE-05, scenario 74."""
    assert next_of(RECORD, OLD) == "roll back"
    assert next_of(RECORD, OLD, make_machine("new", terminating=True)) == "roll back"


def test_replacements_that_never_come_end_it_too() -> None:
    late = replace(RECORD, begun_at=NOW - 601)
    assert next_of(late, OLD, make_machine("new")) == "roll back"
    assert next_of(late, OLD, make_machine("new"), disrupted=10_000) == "wait"


def test_a_command_whose_scheduler_died_before_its_replacements_is_taken_back() -> None:
    begun = replace(RECORD, created=False)
    assert next_of(begun, OLD) == "wait"
    assert next_of(replace(begun, begun_at=NOW - STARTING_SECONDS - 1), OLD) == "roll back"


def test_a_command_is_over_when_its_machines_go() -> None:
    assert next_of(RECORD) == "over"
    assert next_of(RECORD, replace(OLD, terminating=True)) == "over"


def test_the_record_is_found_on_the_machines() -> None:
    further = make_machine("two", annotations={keys.COMMAND_ANNOTATION: written(RECORD)})
    begun = replace(RECORD, candidates=("Machine/old", "Machine/two"), created=False)
    done = replace(begun, created=True)
    both = [
        replace(OLD, annotations={keys.COMMAND_ANNOTATION: written(done)}),
        replace(further, annotations={keys.COMMAND_ANNOTATION: written(begun)}),
    ]
    assert running(both) == {"c1": done}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": 3}', "null"])
def test_an_annotation_that_no_scheduler_wrote_is_no_command(text: str) -> None:
    assert read(text) is None
    assert running([make_machine(annotations={keys.COMMAND_ANNOTATION: text})]) == {}


def test_a_record_copied_to_another_machine_does_not_hold_it() -> None:
    assert running([make_machine("copy", annotations=dict(OLD.annotations))]) == {}


@given(st.integers(0, 10**6))
def test_patience_grows_with_the_disruption_between_ten_minutes_and_an_hour(count: int) -> None:
    """EXE-05."""
    assert patience(count) == min(3600.0, max(600.0, 0.08 * count))


@given(st.text(max_size=40), st.lists(st.text(max_size=20), max_size=5))
def test_what_is_written_is_read(text: str, names: list[str]) -> None:
    record = CommandRecord("id", text, text, tuple(names), tuple(names), 12.5, True, text)
    assert read(written(record)) == record
