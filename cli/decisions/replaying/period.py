"""A recorded period, run twice in simulated time: with the recorded settings, and with others. What came of both.

Both courses are simulated in the same way, so their difference comes from the settings alone.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any, NamedTuple

from cli.decisions.replaying.changes import (
    Changes,
    changed_pass,
    changed_question,
    changed_snapshot,
)
from cli.decisions.replaying.cluster import HOUR, Cluster, Totals
from cli.decisions.replaying.demand import Arrival, Wish, demand
from cli.decisions.replaying.timeline import Rules, Timeline
from shared.concurrency.clock import rfc3339
from shared.domain.machines.machine import INITIALIZED, Machine
from shared.domain.snapshot import Snapshot
from shared.errors import NotFound
from shared.runtime.archive.reading import Archive
from shared.simulation.decisions.records import DecisionRecord, PassQuestion, PlanQuestion
from shared.solver.solve import SolverSettings

USUAL_BOOT_SECONDS = 60.0
LONGEST_BOOT_SECONDS = 900.0


class Compared(NamedTuple):
    """Times in seconds since the epoch."""

    begin: float
    end: float
    boot_seconds: float
    pods: int
    """How many came."""
    recorded: Totals
    """With the recorded settings."""
    changed: Totals


async def compare_period(archive: Archive, begin: float, end: float, changes: Changes) -> Compared:
    """Raises NotFound when nothing is recorded of this period, its beginning is not complete, or has no pools."""
    records = [record async for record in archive.records(begin, end)]
    if not records:
        raise NotFound("no decision of this period is recorded; `dovetail decisions` lists them")
    start = (await archive.restore(records[0])).snapshot
    at = records[0].at
    other_start = changed_snapshot(start, changes)
    if not other_start.pools:
        raise NotFound(
            f"no pool was there at the beginning, {rfc3339(at)}, and a replay keeps the pools of its beginning: give a "
            "later --from, or pools by --with-file"
        )
    wishes = demand(start.pods, [seen async for seen in archive.changes(at, end)])
    last = (await archive.restore(records[-1])).snapshot
    boot = boot_seconds((*start.machines, *last.machines))
    rules = _rules(records, boot)
    other = Rules(
        _plan(changed_question(rules.plan, changes)),
        tuple(changed_pass(one, changes) for one in rules.passes),
        boot,
    )
    stop = max(records[-1].at, at)
    pods = sum(isinstance(wish, Arrival) for wish in wishes)
    return Compared(
        at,
        stop,
        boot,
        pods,
        _run(start, at, stop, rules, wishes),
        _run(other_start, at, stop, other, wishes),
    )


def _run(start: Snapshot, at: float, end: float, rules: Rules, wishes: Iterable[Wish]) -> Totals:
    return Timeline(Cluster(start, at), rules, end).run(wishes)


def _plan(question: Any) -> PlanQuestion:
    assert isinstance(question, PlanQuestion)
    return question


def _rules(records: Iterable[DecisionRecord], boot: float) -> Rules:
    """As the scheduler was set at the beginning."""
    plan: PlanQuestion | None = None
    passes: dict[str, PassQuestion] = {}
    for record in records:
        question = record.question
        if isinstance(question, PlanQuestion):
            plan = plan or question
        elif isinstance(question, PassQuestion):
            passes.setdefault(question.generation, question)
    settings = next((one.settings for one in passes.values()), SolverSettings())
    return Rules(plan or PlanQuestion(0.0, settings), tuple(passes.values()), boot)


def boot_seconds(machines: Iterable[Machine]) -> float:
    """The median time from a machine's creation until it was initialised."""
    found = [
        machine.conditions[INITIALIZED].since - machine.created_at
        for machine in machines
        if machine.has(INITIALIZED) and machine.created_at
    ]
    sensible = [seconds for seconds in found if 0 < seconds <= LONGEST_BOOT_SECONDS]
    return statistics.median(sensible) if sensible else USUAL_BOOT_SECONDS


def facts(totals: Totals) -> dict[str, float]:
    """What is compared, by name."""
    waits = sorted(totals.waits)
    return {
        "$": round(totals.dollars, 4),
        "node-hours": round(totals.node_seconds / HOUR, 2),
        "waiting p50, s": round(_share(waits, 0.5), 1),
        "waiting p99, s": round(_share(waits, 0.99), 1),
        "evictions": totals.evictions,
        "launches": totals.launches,
    }


def _share(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0
