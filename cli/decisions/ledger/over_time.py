"""What the machines cost in a recorded period: the answer of ``dovetail ledger cost --from``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from cli.printing import print_line, print_table
from cli.text import counted
from shared.concurrency.clock import rfc3339
from shared.domain.records import MACHINES, NODES, PODS, decode_record
from shared.errors import ConfigurationError, NotFound
from shared.runtime.archive.history import History, Priced
from shared.runtime.archive.reading import Archive, Seen
from shared.simulation.decisions.records import DecisionRecord
from shared.simulation.ledgers.allocation import IDLE, MICRO, name_of
from shared.simulation.ledgers.focus import Owner, owner_of, spent_rows
from shared.simulation.ledgers.instances import HOUR
from shared.simulation.ledgers.spending import MOST_PERIODS, Spending, edges_of

MOST_DEAREST = 4
"""Names beside one period."""


@dataclass(frozen=True)
class Spent:
    """What was spent from ``edges[0]`` to ``edges[-1]``; ``owners``: micro-USD by period and owner."""

    edges: tuple[float, ...]
    owners: dict[tuple[int, Owner], float]
    named: dict[tuple[int, str], float]
    """Micro-USD by period and name."""
    unpriced: tuple[str, ...]
    region: str
    gaps: int

    @property
    def total(self) -> float:
        return sum(self.named.values())


async def spent_in(archive: Archive, begin: float, end: float, every: str, by: str) -> Spent:
    """From when the log begins, at the earliest, until its last entry. Raises NotFound when nothing is recorded, and
    ConfigurationError for too many periods."""
    history = History(archive, (MACHINES, NODES, PODS))
    spending: Spending[tuple[str, Owner]] | None = None
    last = begin
    async for one in history.between(begin, end):
        if spending is None:
            edges = edges_of(one.at, end, every)
            if len(edges) > MOST_PERIODS:
                raise ConfigurationError(
                    f"more than {MOST_PERIODS:,} periods: use a longer --every"
                )
            spending = Spending(edges, partial(_names, by=by))
        last = max(last, one.at)
        _follow(spending, one)
    if spending is None:
        raise NotFound("nothing is recorded of this time; `dovetail decisions` lists what is")
    return _spent(spending, last, history)


def _names(charge: Any, by: str) -> tuple[str, Owner]:
    return name_of(charge, by), owner_of(charge)


def _follow(spending: Spending[Any], one: Seen | DecisionRecord | Priced) -> None:
    if isinstance(one, Priced):
        spending.priced(one.at, one.prices)
    elif isinstance(one, Seen):
        record = None if one.body is None else decode_record(one.kind, one.body)
        if one.kind == MACHINES:
            spending.machine(one.at, one.key, record)
        elif one.kind == NODES:
            spending.node(one.at, one.key, record)
        else:
            spending.pod(one.at, one.key, record)


def _spent(spending: Spending[tuple[str, Owner]], end: float, history: History) -> Spent:
    named: defaultdict[tuple[int, str], float] = defaultdict(float)
    owners: defaultdict[tuple[int, Owner], float] = defaultdict(float)
    for (period, (name, owner)), amount in spending.finish(end).items():
        named[period, name] += amount
        owners[period, owner] += amount
    edges = [*(edge for edge in spending.edges if edge < end), end]
    unpriced = tuple(sorted(spending.unpriced))
    found = (dict(owners), dict(named), unpriced, history.region, history.gaps)
    return Spent(tuple(edges), *found)


def rows_of(spent: Spent) -> Iterator[dict[str, str]]:
    """In the columns of FOCUS, by period."""
    edges = spent.edges
    found = (
        (owner, edges[period], edges[period + 1], micro)
        for (period, owner), micro in sorted(spent.owners.items())
    )
    return spent_rows(found, region=spent.region)


def document_of(spent: Spent, by: str) -> dict[str, Any]:
    """Costs in US dollars; ``share`` of the total, from 0 to 1. ``from`` and ``to``: what is recorded of the period."""
    begin, end, total = spent.edges[0], spent.edges[-1], spent.total
    sums = _summed(spent.named)
    return {
        "by": by,
        "from": rfc3339(begin),
        "to": rfc3339(end),
        "cost": total / MICRO,
        "perHour": total / MICRO / ((end - begin) / HOUR) if end > begin else 0.0,
        "parts": [
            {"name": name, "cost": micro / MICRO, "share": micro / total if total else 0.0}
            for name, micro in sums.items()
        ],
        "idle": sums.get(IDLE, 0.0) / MICRO,
        "periods": [_period(spent, number) for number in range(len(spent.edges) - 1)],
        "priceNotKnown": list(spent.unpriced),
        "gaps": spent.gaps,
    }


def _period(spent: Spent, number: int) -> dict[str, Any]:
    own = {part: micro for part, micro in spent.named.items() if part[0] == number}
    return {
        "from": rfc3339(spent.edges[number]),
        "to": rfc3339(spent.edges[number + 1]),
        "cost": sum(own.values()) / MICRO,
        "parts": {name: micro / MICRO for name, micro in _summed(own).items()},
    }


def _summed(found: dict[tuple[int, str], float]) -> dict[str, float]:
    totals: defaultdict[str, float] = defaultdict(float)
    for (_, name), micro in found.items():
        totals[name] += micro
    return dict(sorted(totals.items(), key=lambda one: (-one[1], one[0])))


def print_spent(answer: dict[str, Any]) -> None:
    """The sums, and the periods if there are several."""
    print_table(
        (answer["by"], "$", "share"),
        ((one["name"], f"{one['cost']:.4f}", f"{one['share']:.1%}") for one in answer["parts"]),
    )
    if len(answer["periods"]) > 1:
        _print_periods(answer["periods"])
    print_line(
        f"${answer['cost']:.4f} from {answer['from']} to {answer['to']}, ${answer['perHour']:.4f} an hour"
    )
    if answer["priceNotKnown"]:
        named = ", ".join(answer["priceNotKnown"][:5])
        count = counted(len(answer["priceNotKnown"]), "machine")
        print_line(f"not counted, the price is not known: {count}: {named}")
    if answer["gaps"]:
        print_line(f"not complete: {answer['gaps']} series of the log lack a part")


def _print_periods(periods: Iterable[dict[str, Any]]) -> None:
    print_table(
        ("from", "$", "dearest"),
        (
            (period["from"], f"{period['cost']:.4f}", _dearest(period["parts"]))
            for period in periods
        ),
        title="Over time",
    )


def _dearest(parts: dict[str, float]) -> str:
    named = [f"{name} {dollars:.4f}" for name, dollars in islice(parts.items(), MOST_DEAREST)]
    more = len(parts) - len(named)
    return ", ".join([*named, *([f"{more} more"] if more else [])])
