"""How far a command has come follows from its record and its machines (EXE-04..06, EXE-08)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from services.scheduler.disruption.command_record import Written, is_shown, patience, running, step
from shared.domain import labels as keys
from shared.domain.machines.commands import CommandRecord, holder, read, written
from shared.domain.machines.machine import INITIALIZED, Condition, Machine
from tests.support.planning.builders import make_machine

NOW = 5000.0
RECORD = CommandRecord(
    "c1", "drift", "Drifted", ("Machine/old",), ("Machine/new",), NOW - 1, created=True
)
OLD = make_machine("old", annotations={keys.COMMAND_ANNOTATION: written(RECORD)})
READY = {INITIALIZED: Condition("True")}


def machines(*found: Machine) -> dict[str, Machine]:
    return {machine.key: machine for machine in found}


def next_of(record: CommandRecord, *found: Machine, **changes: Any) -> str:
    return step(
        record, machines(*found), **{"now": NOW, "disrupted": 1, "ours": False, **changes}
    ).next


def test_a_command_waits_until_every_replacement_is_initialised() -> None:
    """EXE-04: waiting for replacements."""
    assert next_of(RECORD, OLD, make_machine("new")) == "wait"
    assert next_of(RECORD, OLD, make_machine("new", conditions=READY)) == "delete"


def test_without_replacements_there_is_nothing_to_wait_for() -> None:
    assert next_of(replace(RECORD, replacements=()), OLD, ours=True) == "delete"


def test_a_deletion_that_a_dead_scheduler_began_is_decided_anew() -> None:
    """EXE-02, DIS-02: nobody knows how long ago its nodes were empty enough, nor what its budgets allow by now."""
    assert next_of(replace(RECORD, replacements=()), OLD) == "roll back"


def test_a_lost_replacement_ends_the_command() -> None:
    """EXE-05: a command whose replacement fails; ACC-74: no capacity for the replacement."""
    assert next_of(RECORD, OLD) == "roll back"
    assert next_of(RECORD, OLD, make_machine("new", terminating=True)) == "roll back"


def test_replacements_that_never_come_end_it_too() -> None:
    late = replace(RECORD, begun_at=NOW - 601)
    assert next_of(late, OLD, make_machine("new")) == "roll back"
    assert next_of(late, OLD, make_machine("new"), disrupted=10_000) == "wait"


@pytest.mark.parametrize("ours", [True, False])
def test_a_command_that_was_cut_off_before_its_replacements_is_taken_back(ours: bool) -> None:
    """EXE-03. At once: a command is begun in one go, so nobody is about to go on with it."""
    assert next_of(replace(RECORD, created=False), OLD, ours=ours) == "roll back"


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
    copy = make_machine("copy", annotations=dict(OLD.annotations))
    assert running([copy]) == {}
    assert holder(copy) is None
    assert holder(OLD) == RECORD


@given(st.integers(0, 10**6))
def test_patience_grows_with_the_disruption_between_ten_minutes_and_an_hour(count: int) -> None:
    """EXE-05: a command whose replacement fails."""
    assert patience(count) == min(3600.0, max(600.0, 0.08 * count))


@given(st.text(max_size=40), st.lists(st.text(max_size=20), max_size=5))
def test_what_is_written_is_read(text: str, names: list[str]) -> None:
    record = CommandRecord("id", text, text, tuple(names), tuple(names), 12.5, True, text)
    assert read(written(record)) == record


@pytest.mark.parametrize(
    ("over", "record", "alive", "shown"),
    [
        (False, None, {"Machine/a"}, False),
        (False, None, set(), True),
        (False, False, {"Machine/a"}, False),
        (False, True, {"Machine/a"}, True),
        (True, True, {"Machine/a"}, False),
        (True, None, {"Machine/a"}, True),
    ],
)
def test_what_we_wrote_of_a_command_counts_until_it_is_shown(
    over: bool, record: bool | None, alive: set[str], shown: bool
) -> None:
    """``record``: whether the one that the mirror has says that all replacements exist; None: it has none."""
    ours = CommandRecord("id", "drift", "Drifted", ("Machine/a",), created=True)
    theirs = None if record is None else replace(ours, created=record)
    assert is_shown(Written(ours, over), theirs, alive) is shown
