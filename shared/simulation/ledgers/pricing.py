"""What the rules of the dearest workloads cost, as long as there is time; and as a document. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from shared.concurrency.clock import Clock
from shared.domain.snapshot import Snapshot
from shared.simulation.ledgers.allocation import HOURS_OF_MONTH, MICRO
from shared.simulation.ledgers.constraints import (
    Planned,
    Priced,
    Workload,
    dearest,
    held_nodes,
    planned,
    price,
    workloads,
)
from shared.solver.solve import SolverSettings


class Source(NamedTuple):
    """A cluster to look at. ``now``: seconds since the epoch."""

    snapshot: Snapshot
    settings: SolverSettings
    now: float


class Found(NamedTuple):
    """``held``: nodes that may not be drained; ``left``: workloads with rules that were not looked at or
    not wholly."""

    base: Planned
    held: int
    rules: list[Priced]
    left: int


def priced(
    source: Source,
    clock: Clock,
    most: int,
    seconds: float,
    note: Callable[[Workload, int, int], None] = lambda workload, done, rules: None,
) -> Found:
    """The rules of the ``most`` dearest workloads; after so many seconds no further plan begins. ``note`` hears
    which workload is looked at, how many rules are done and how many there are."""
    snapshot, settings, now = source
    every = workloads(snapshot, now=now)
    chosen = every[:most]
    base = planned(snapshot, settings, now=now)
    found = Found(base, held_nodes(snapshot, now), [], len(every))
    deadline = clock.monotonic() + seconds
    rules = sum(len(one.rules) for one in chosen)
    for one in chosen:
        note(one, len(found.rules), rules)
        for answer in price(snapshot, one, base, settings, now=now):
            found.rules.append(answer)
            note(one, len(found.rules), rules)
            if clock.monotonic() > deadline:
                return found
        found = found._replace(left=found.left - 1)
    return found


def constraints_document(found: Found) -> dict[str, Any]:
    """Amounts in US dollars. ``pricePerHour`` null: without the rule other pods have a place."""
    return {
        "plannedPerHour": found.base.cost / MICRO,
        "podsWithoutAPlace": found.base.unplaced,
        "nodesHeld": found.held,
        "rules": [_row(one) for one in dearest(found.rules)],
        "workloadsLeft": found.left,
    }


def _row(one: Priced) -> dict[str, Any]:
    price_ = None if one.cost is None else one.cost / MICRO
    return {
        "workload": one.workload.name,
        "costPerHour": one.workload.cost / MICRO,
        "rule": one.rule,
        "pricePerHour": price_,
        "pricePerMonth": None if price_ is None else price_ * HOURS_OF_MONTH,
        "placesMore": one.places,
    }
