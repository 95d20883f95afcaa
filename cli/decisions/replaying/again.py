"""One recorded decision, made again: pure. The same code decides as in the scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from services.scheduler.disruption.passes import pass_again, validation_again
from shared.domain.snapshot import Snapshot
from shared.simulation.decisions.prepared import to_plan
from shared.simulation.decisions.records import (
    DecisionRecord,
    Outcome,
    PassQuestion,
    PlanQuestion,
    Question,
    encode_outcome,
)
from shared.solver.plan import Plan
from shared.solver.solve import solve_in_order
from shared.solver.virtual_pods import without_virtual_pods


class Difference(NamedTuple):
    """The first place where two outcomes differ, as a path; the values are JSON, cut."""

    path: str
    recorded: str
    now: str


LONGEST_VALUE = 200
ABSENT = "nothing"


def decided_again(snapshot: Snapshot, question: Question) -> Outcome:
    """The outcome of this question on this snapshot."""
    if isinstance(question, PlanQuestion):
        return planned_again(snapshot, question)
    if isinstance(question, PassQuestion):
        return pass_again(snapshot, question)
    return validation_again(snapshot, question)


def planned_again(snapshot: Snapshot, question: PlanQuestion, *, bounded: bool = True) -> Plan:
    """A plan as the scheduler makes it: pools by their hours, and room that is kept (GAT-02). ``bounded`` False: where
    nobody reads its lower bound, which takes a third of the time."""
    now, settings = question.now, question.settings
    whole = to_plan(snapshot, question)
    moving = frozenset(question.moving)
    plan = solve_in_order(whole, now=now, settings=settings, reschedule=moving, bounded=bounded)
    return without_virtual_pods(plan, whole)


def difference(record: DecisionRecord, outcome: Outcome) -> Difference | None:
    """None when the outcome is the recorded one, byte for byte."""
    body = encode_outcome(outcome)
    if body == bytes(record.outcome):
        return None
    before, now = msgspec.json.decode(record.outcome), msgspec.json.decode(body)
    found = next(_differences("", before, now), None)
    # Equal values in another order of their keys are another plan too: the bytes differ.
    return found or Difference("order of keys", "as recorded", "another")


def _differences(path: str, before: Any, now: Any) -> Iterator[Difference]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys((*before, *now)):
            at = f"{path}.{key}" if path else str(key)
            yield from _of_part(at, before, now, key)
    elif isinstance(before, list) and isinstance(now, list):
        for index in range(max(len(before), len(now))):
            given = (dict(enumerate(before)), dict(enumerate(now)))
            yield from _of_part(f"{path}[{index}]", *given, index)
    elif before != now:
        yield Difference(path, _shown(before), _shown(now))


def _of_part(
    path: str, before: Mapping[Any, Any], now: Mapping[Any, Any], key: Any
) -> Iterator[Difference]:
    if key not in before:
        yield Difference(path, ABSENT, _shown(now[key]))
    elif key not in now:
        yield Difference(path, _shown(before[key]), ABSENT)
    else:
        yield from _differences(path, before[key], now[key])


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
